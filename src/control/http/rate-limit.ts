/** Token buckets: a caller may use its whole quota at once, and then requests at the refill rate. */
import type { Clock } from '../../lib/clock.ts'

export interface RatePolicy {
  /** Name of the policy in the `RateLimit-Policy` header. */
  readonly name: string
  readonly quota: number
  readonly windowSeconds: number
}

export interface RateVerdict {
  readonly allowed: boolean
  /** Number of whole requests that are left now. */
  readonly remaining: number
  /**
   * For a refused request, seconds until the next one is allowed; for an allowed request, seconds until the bucket is
   * full again.
   */
  readonly waitSeconds: number
}

/** Counts requests against a policy. `shareRateLimits` wraps a local limiter for several control planes. */
export interface RateLimiter {
  /**
   * Counts a request, which is allowed if at least one token is left.
   * @param count tokens to take; the bucket may go below zero and then has to refill first
   */
  take(policy: RatePolicy, key: string, count?: number): RateVerdict
  /** Number of requests that would be allowed now. Takes no tokens. */
  left(policy: RatePolicy, key: string): number
  /**
   * Takes tokens for the additional cost of an allowed request, or for requests that another control plane allowed. The
   * bucket may go below zero and then has to refill first.
   */
  charge(policy: RatePolicy, key: string, count: number): void
}

interface Bucket {
  tokens: number
  atMs: number
}

/**
 * Creates a limiter that counts in memory.
 * @param maxKeys bounds the memory (about 100 bytes per key). Buckets are kept in two generations of half that size:
 * when the newer one is full it replaces the older one, whose buckets, unused since then, are dropped. Dropping can
 * only make the limiter more generous, and a lookup costs the same for any number of keys.
 */
export function createRateLimiter(clock: Clock, maxKeys = 50_000): RateLimiter {
  let recent = new Map<string, Bucket>()
  let former = new Map<string, Bucket>()
  const bucketOf = (id: string, nowMs: number, quota: number): Bucket => {
    const known = recent.get(id)
    if (known) return known
    const bucket = former.get(id) ?? { tokens: quota, atMs: nowMs }
    if (recent.size >= maxKeys / 2) {
      former = recent
      recent = new Map()
    }
    recent.set(id, bucket)
    return bucket
  }
  /** Returns the bucket, refilled up to now. */
  const refilled = ({ name, quota, windowSeconds }: RatePolicy, key: string): Bucket => {
    const nowMs = clock.monotonicMs()
    const bucket = bucketOf(`${name}:${key}`, nowMs, quota)
    bucket.tokens = Math.min(quota, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * (quota / windowSeconds))
    bucket.atMs = nowMs
    return bucket
  }
  return {
    take(policy, key, count = 1) {
      const { quota, windowSeconds } = policy
      const bucket = refilled(policy, key)
      const allowed = bucket.tokens >= 1
      if (allowed) bucket.tokens -= count
      const missing = allowed ? quota - bucket.tokens : 1 - bucket.tokens
      return {
        allowed,
        remaining: Math.max(0, Math.floor(bucket.tokens)),
        waitSeconds: Math.max(1, Math.ceil((missing * windowSeconds) / quota)),
      }
    },
    left: (policy, key) => Math.max(0, Math.floor(refilled(policy, key).tokens)),
    charge(policy, key, count) {
      refilled(policy, key).tokens -= count
    },
  }
}

/**
 * Returns the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10), and `Retry-After`
 * for a refused request.
 */
export function rateHeaders(policy: RatePolicy, verdict: RateVerdict): Readonly<Record<string, string>> {
  return {
    'ratelimit-policy': `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`,
    ratelimit: `"${policy.name}";r=${verdict.remaining};t=${verdict.waitSeconds}`,
    ...(verdict.allowed ? {} : { 'retry-after': String(verdict.waitSeconds) }),
  }
}

/**
 * Returns the rate limit key of an IP address: the whole IPv4 address, or the /64 of an IPv6 address, since one client
 * usually has a whole /64.
 */
export function addressKey(ip: string): string {
  const plain = plainAddress(ip)
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups =
    tail === undefined
      ? left
      : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right]
  return groups.slice(0, 4).join(':')
}

/** Converts an IPv4-mapped IPv6 address to plain IPv4. */
export function plainAddress(ip: string): string {
  return ip.startsWith('::ffff:') && ip.includes('.') ? ip.slice(7) : ip
}
