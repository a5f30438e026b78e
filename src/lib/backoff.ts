/**
 * Returns the delay before attempt number `attempt` + 1: doubling from `baseMs`, at most `capMs`, with "equal jitter"
 * (half fixed, half random), so that failures of one cause are not retried in step and none is retried at once.
 * `random` is in [0, 1).
 */
export function backoffMs(
  attempt: number,
  random: number,
  { baseMs = 250, capMs = 60_000 }: { readonly baseMs?: number; readonly capMs?: number } = {},
): number {
  const full = Math.min(capMs, baseMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}
