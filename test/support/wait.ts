import { cpus, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'

export interface UntilOptions {
  readonly timeoutMs?: number
  /** Description for the error message "timed out after 5000 ms waiting for <what>". */
  readonly what: string
  readonly everyMs?: number
}

/**
 * Waits until `condition` returns a truthy value, and returns the value. An error in `condition` counts as false; after
 * a timeout, it is the cause of the thrown error. Tests wait only with this function.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 30_000, what, everyMs = 5 }: UntilOptions,
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

/**
 * Returns the upper bound for a duration that the documentation promises: `ms` on an idle machine, ten times as much on
 * an overloaded one, where processes wait for a core.
 */
export const promisedMs = (ms: number): number => ((loadavg()[0] ?? 0) < cpus().length * 2 ? ms : ms * 10)
