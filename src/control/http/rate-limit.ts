/** Token buckets: a caller may use its whole quota at once, and then as fast as it refills. */
import type { Clock } from '../../lib/clock.ts'

export interface RatePolicy {
  /** As it appears in `RateLimit-Policy`. */
  readonly name: string
  readonly quota: number
  readonly windowSeconds: number
}

export interface RateVerdict {
  readonly allowed: boolean
  /** Whole requests left now. */
  readonly remaining: number
  /** Until the next request will be let through (refused), or until the bucket is full again (allowed). */
  readonly waitSeconds: number
}

/** Several control planes can share one by an implementation over a common store. */
export interface RateLimiter {
  take(policy: RatePolicy, key: string): RateVerdict | Promise<RateVerdict>
}

interface Bucket {
  tokens: number
  atMs: number
}

/**
 * @param maxKeys bounds the memory (about 100 bytes a key). When it is reached, the bucket that was used longest ago is
 * forgotten, which can only make the limiter more generous.
 */
export function createRateLimiter(clock: Clock, maxKeys = 50_000): RateLimiter {
  const buckets = new Map<string, Bucket>()
  return {
    take({ name, quota, windowSeconds }, key) {
      const id = `${name}:${key}`
      const nowMs = clock.monotonicMs()
      const perSecond = quota / windowSeconds
      const bucket = buckets.get(id) ?? { tokens: quota, atMs: nowMs }
      bucket.tokens = Math.min(quota, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * perSecond)
      bucket.atMs = nowMs
      const allowed = bucket.tokens >= 1
      if (allowed) bucket.tokens -= 1
      // Re-inserting keeps the map in order of use.
      buckets.delete(id)
      buckets.set(id, bucket)
      if (buckets.size > maxKeys) buckets.delete(buckets.keys().next().value ?? id)
      const missing = allowed ? quota - bucket.tokens : 1 - bucket.tokens
      return { allowed, remaining: Math.floor(bucket.tokens), waitSeconds: Math.max(1, Math.ceil(missing / perSecond)) }
    },
  }
}

/** `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10); `Retry-After` when refused. */
export function rateHeaders(policy: RatePolicy, verdict: RateVerdict): Readonly<Record<string, string>> {
  return {
    'ratelimit-policy': `"${policy.name}";q=${policy.quota};w=${policy.windowSeconds}`,
    ratelimit: `"${policy.name}";r=${verdict.remaining};t=${verdict.waitSeconds}`,
    ...(verdict.allowed ? {} : { 'retry-after': String(verdict.waitSeconds) }),
  }
}

/** What counts as one address: IPv4 as it is, IPv6 by its /64, since one client usually has a whole one. */
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

/** IPv4 that arrives on an IPv6 socket as plain IPv4. */
export function plainAddress(ip: string): string {
  return ip.startsWith('::ffff:') && ip.includes('.') ? ip.slice(7) : ip
}
