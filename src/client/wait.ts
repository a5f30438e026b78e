/** Resolves after `ms`, or at once when the signal aborts. */
export function waitMs(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve()
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/**
 * The delay before a retry: doubles from `firstMs` up to `longestMs`, minus a random part of up to a half, so that
 * clients spread out.
 */
export function backoffMs(attempt: number, firstMs: number, longestMs: number, random: () => number): number {
  return Math.min(longestMs, firstMs * 2 ** attempt) * (1 - random() / 2)
}
