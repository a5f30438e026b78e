/** A bounded cache of earlier results. The caller checks whether a cached value is still valid. */
export interface GenerationalCache<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value): void
  forget(key: string): void
}

/**
 * @param most maximum number of values. They are kept in two generations, each of half the size. When the newer
 * generation is full, it replaces the older one, whose unused values are dropped. Thus the cost of a lookup is
 * constant.
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
