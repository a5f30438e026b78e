/** Limits one guest's use of its host's DNS resolver, so that other guests get responses, too. */

export interface Share {
  /** Maximum number of pending operations per guest. */
  readonly each: number
  /** If the pending operations of all guests reach this number, the limit per guest is `eachWhenBusy`. */
  readonly busy: number
  readonly eachWhenBusy: number
}

/**
 * Limits each guest's pending operations. `take` counts one more and returns a function that ends it; undefined if the
 * guest has reached its limit.
 */
export function shares({ each, busy, eachWhenBusy }: Share): { take(who: string): (() => void) | undefined } {
  const taken = new Map<string, number>()
  let all = 0
  const change = (who: string, by: 1 | -1) => {
    const now = (taken.get(who) ?? 0) + by
    if (now > 0) taken.set(who, now)
    else taken.delete(who)
    all += by
  }
  return {
    take(who) {
      if ((taken.get(who) ?? 0) >= (all >= busy ? eachWhenBusy : each)) return undefined
      change(who, 1)
      return () => change(who, -1)
    },
  }
}

/** Limits each guest's queries per second with a token bucket, which holds the tokens of two seconds. */
export function rates(perSecond: number, nowMs: () => number): { take(who: string): boolean } {
  const most = 2 * perSecond
  const buckets = new Map<string, { left: number; atMs: number }>()
  let sweptMs = nowMs()
  /** Deletes the token buckets that were unused for two seconds, because they are full again. */
  const sweep = (atMs: number) => {
    if (atMs - sweptMs < 2_000) return
    sweptMs = atMs
    for (const [who, bucket] of buckets) if (atMs - bucket.atMs >= 2_000) buckets.delete(who)
  }
  return {
    take(who) {
      const atMs = nowMs()
      sweep(atMs)
      const bucket = buckets.get(who) ?? { left: most, atMs }
      const left = Math.min(most, bucket.left + (Math.max(0, atMs - bucket.atMs) / 1000) * perSecond)
      buckets.set(who, { left: left < 1 ? left : left - 1, atMs })
      return left >= 1
    },
  }
}
