import { setTimeout as delay } from 'node:timers/promises'

export interface UntilOptions {
  readonly timeoutMs?: number
  /** Named in the error: "timed out after 5000 ms waiting for <what>". */
  readonly what: string
  readonly everyMs?: number
}

/**
 * Waits until `condition` gives something truthy, and returns that: the only way for a test to wait. A condition that
 * throws counts as not yet; the last error is the cause when time is up.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 20_000, what, everyMs = 5 }: UntilOptions,
): Promise<Exclude<Awaited<T>, false | undefined | null | 0 | ''>> {
  const deadline = performance.now() + timeoutMs
  let cause: unknown
  for (;;) {
    try {
      const value = await condition()
      if (value) return value as Exclude<Awaited<T>, false | undefined | null | 0 | ''>
      cause = undefined
    } catch (error) {
      cause = error
    }
    if (performance.now() > deadline) throw new Error(`timed out after ${timeoutMs} ms waiting for ${what}`, { cause })
    await delay(everyMs)
  }
}
