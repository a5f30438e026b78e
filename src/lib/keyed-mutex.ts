/** A mutex per key: calls with the same key run one after the other, in order. */
export interface KeyedMutex {
  take<T>(key: string, act: () => Promise<T>): Promise<T>
  /** Resolves when no call is running for any key. */
  settled(): Promise<void>
}

export function createKeyedMutex(): KeyedMutex {
  const last = new Map<string, Promise<unknown>>()
  return {
    take<T>(key: string, act: () => Promise<T>): Promise<T> {
      const turn = (last.get(key) ?? Promise.resolve()).catch(() => undefined).then(act)
      last.set(key, turn)
      return turn.finally(() => last.get(key) === turn && last.delete(key))
    },
    async settled() {
      await Promise.allSettled([...last.values()])
    },
  }
}
