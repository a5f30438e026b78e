import { cpus, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'

export interface UntilOptions {
  readonly timeoutMs?: number
  /** Description for the error message "timed out after 5000 ms waiting for <what>". */
  readonly what: string
  /** Time between two checks. By default, it grows from 5 to 25 ms: 4 % of the time that the wait has taken so far. */
  readonly everyMs?: number
}

/**
 * Waits until `condition` returns a truthy value, and returns the value. An error in `condition` counts as false; after
 * a timeout, it is the cause of the thrown error. Tests wait only with this function.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 30_000, what, everyMs }: UntilOptions,
): Promise<Exclude<Awaited<T>, false | undefined | null | 0 | ''>> {
  const startedMs = performance.now()
  const deadline = startedMs + timeoutMs
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
    // Fewer checks in long waits: a check of a VM takes up to 1 ms of CPU time, and a guest boots for seconds.
    await delay(everyMs ?? Math.min(25, Math.max(5, (performance.now() - startedMs) / 25)))
  }
}

/**
 * Returns the upper bound for a duration that the documentation promises: `ms` on an idle machine, ten times as much on
 * an overloaded one, where processes wait for a core.
 */
export const promisedMs = (ms: number): number => ((loadavg()[0] ?? 0) < cpus().length * 2 ? ms : ms * 10)
