/** Creates a value at first use and remembers it. */
export function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}

/**
 * Creates a value asynchronously at first use and remembers it, for example a rarely used library that would cost time
 * and memory at startup. After a failure, the next caller tries again.
 */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make().catch((cause: unknown) => {
      made = undefined
      throw cause
    })
    return made
  }
}
