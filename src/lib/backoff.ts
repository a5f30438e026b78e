/**
 * Returns the delay after the failed attempt `attempt`, counted from 0: doubling from `baseMs` to at most `capMs`, with
 * "equal jitter" (half fixed, half random). With it, operations that failed together are retried at different times,
 * and none immediately. `random` is in [0, 1).
 */
export function backoffMs(
  attempt: number,
  random: number,
  { baseMs = 250, capMs = 60_000 }: { readonly baseMs?: number; readonly capMs?: number } = {},
): number {
  const full = Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}
