/** Returns a function that creates a value at its first call, and returns the same value at later calls. */
export function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}

/**
 * Like `lazily`, for a value that is created asynchronously, for example a rarely used library that would cost time and
 * memory at startup. After a failure, the next caller tries again.
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
