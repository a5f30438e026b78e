/** What was found the last time, under a key, in bounded memory. Whether it still holds is for whoever asks to find out. */
export interface GenerationalCache<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value): void
  forget(key: string): void
}

/**
 * @param most values that are kept. They are in two generations of half as many: a full one takes the place of the other, and
 * what nobody asked for since then is gone with it, so that a question costs one look into a table, however many there are.
 */
export function createGenerationalCache<Value>(most: number): GenerationalCache<Value> {
  let recent = new Map<string, Value>()
  let former = new Map<string, Value>()
  const set = (key: string, value: Value) => {
    if (recent.size >= most / 2 && !recent.has(key)) {
      former = recent
      recent = new Map()
    }
    recent.set(key, value)
  }
  return {
    get(key) {
      const found = recent.get(key)
      if (found !== undefined) return found
      const older = former.get(key)
      if (older !== undefined) set(key, older)
      return older
    },
    set,
    forget(key) {
      recent.delete(key)
      former.delete(key)
    },
  }
}
