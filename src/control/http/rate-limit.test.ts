import { describe, expect, it } from 'vitest'
import { addressKey, createRateLimiter, plainAddress, rateHeaders } from './rate-limit.ts'

function fakeClock() {
  let ms = 0
  return { now: () => new Date(ms), monotonicMs: () => ms, pass: (more: number) => void (ms += more) }
}
const policy = { name: 'test', quota: 3, windowSeconds: 60 }

describe('createRateLimiter', () => {
  it('allows the whole quota at once, then requests at the refill rate', async () => {
    const clock = fakeClock()
    const limiter = createRateLimiter(clock)
    const taken = []
    for (let i = 0; i < 4; i++) taken.push(await limiter.take(policy, 'a'))
    expect(taken.map(verdict => verdict.allowed)).toEqual([true, true, true, false])
    expect(taken[3]).toMatchObject({ remaining: 0, waitSeconds: 20 })
    clock.pass(19_000)
    expect(await limiter.take(policy, 'a')).toMatchObject({ allowed: false, waitSeconds: 1 })
    clock.pass(1_000)
    expect(await limiter.take(policy, 'a')).toMatchObject({ allowed: true, remaining: 0 })
    clock.pass(600_000)
    expect(await limiter.take(policy, 'a')).toMatchObject({ allowed: true, remaining: 2 })
  })

  it('counts each pair of key and policy separately', async () => {
    const limiter = createRateLimiter(fakeClock())
    const tight = { ...policy, quota: 1 }
    expect((await limiter.take(tight, 'a')).allowed).toBe(true)
    expect((await limiter.take(tight, 'a')).allowed).toBe(false)
    expect((await limiter.take(tight, 'b')).allowed).toBe(true)
    expect((await limiter.take({ ...tight, name: 'other' }, 'a')).allowed).toBe(true)
  })

  it('evicts the least recently used key when there are too many', async () => {
    const limiter = createRateLimiter(fakeClock(), 2)
    const tight = { ...policy, quota: 1 }
    for (const key of ['a', 'b', 'a', 'c']) await limiter.take(tight, key)
    expect((await limiter.take(tight, 'a')).allowed, 'a is remembered').toBe(false)
    expect((await limiter.take(tight, 'b')).allowed, 'b was forgotten').toBe(true)
  })

  it('reports the limit in response headers', () => {
    expect(rateHeaders(policy, { allowed: false, remaining: 0, waitSeconds: 20 })).toEqual({
      'ratelimit-policy': '"test";q=3;w=60',
      ratelimit: '"test";r=0;t=20',
      'retry-after': '20',
    })
  })
})

describe('the rate limit key of an IP address', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1:2:3:4', 'fe80:0:0:0'],
  ])('of %s is %s', (ip, key) => expect(addressKey(ip)).toBe(key))
  it('is based on the unchanged address unless it is an IPv4-mapped IPv6 address', () =>
    expect(plainAddress('2001:db8::1')).toBe('2001:db8::1'))
})
