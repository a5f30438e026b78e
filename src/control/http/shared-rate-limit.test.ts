import { pino } from 'pino'
import { expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import type { Bus } from '../../bus/bus.ts'
import { createMemoryBus } from '../../bus/memory.ts'
import { createRateLimiter } from './rate-limit.ts'
import { rateSubject, shareRateLimits } from './shared-rate-limit.ts'

const log = pino({ level: 'silent' })
const policy = { name: 'tenant', quota: 60, windowSeconds: 60 }

function fakeClock() {
  let ms = 0
  return { now: () => new Date(ms), monotonicMs: () => ms, pass: (more: number) => void (ms += more) }
}

/** Two control planes on one bus and one clock. They publish only when the test calls `report`. */
async function twoPlanes() {
  const bus = createMemoryBus()
  const clock = fakeClock()
  const plane = async () => {
    const local = createRateLimiter(clock)
    const shared = await shareRateLimits({ bus, log }, local, 1e8)
    const ask = (times: number, key = 'k') =>
      Array.from({ length: times }, () => shared.limiter.take(policy, key)).filter(({ allowed }) => allowed).length
    return { ...shared, local, ask }
  }
  const [a, b] = [await plane(), await plane()]
  let delivered = 0
  const counting = await bus.subscribe(rateSubject, () => void delivered++)
  return {
    a,
    b,
    bus,
    clock,
    /** Publishes which requests each of `from` has allowed, and waits until all control planes have received that. */
    async report(...from: (typeof a)[]) {
      const wanted = delivered + from.length
      for (const shared of from) await shared.publish()
      await until(() => delivered >= wanted, { what: 'the grants arrived' })
    },
    async [Symbol.asyncDispose]() {
      await counting.stop()
      for (const shared of [a, b]) await shared.stop()
      await bus.close()
    },
  }
}

it('requests that one control plane has allowed reduce the quota at the other', async () => {
  await using planes = await twoPlanes()
  const { a, b } = planes
  expect(a.ask(50)).toBe(50)
  await planes.report(a)
  expect(b.ask(50)).toBe(10)
  expect(b.ask(1, 'another key')).toBe(1)
})

it('two control planes together allow at most one quota too much, once, and then fewer requests until that is made up for', async () => {
  await using planes = await twoPlanes()
  const { a, b, clock } = planes
  expect(a.ask(100) + b.ask(100), 'before they hear of each other').toBe(120)
  await planes.report(a, b)
  let granted = 0
  for (let second = 0; second < 600; second++) {
    clock.pass(1_000)
    const got = [a.ask(5), b.ask(5)]
    granted += got.reduce((sum, n) => sum + n, 0)
    await planes.report(...[a, b].filter((_, i) => got[i]! > 0))
  }
  // The quota refills by one request a second, so by 600 in 600 s, 60 of which make up for the excess. The tolerance of
  // 5 is for requests that a control plane allows before it learns of those that the other one has allowed.
  expect(granted).toBeGreaterThan(535)
  expect(granted).toBeLessThanOrEqual(545)
})

it('a control plane publishes each allowed request once, and nothing if it has allowed none since', async () => {
  await using planes = await twoPlanes()
  const observed: unknown[] = []
  const listening = await planes.bus.subscribe(rateSubject, ({ data }) => void observed.push(data))
  await planes.a.publish()
  planes.a.ask(3)
  await planes.report(planes.a)
  await planes.a.publish()
  expect(observed).toEqual([
    { from: expect.any(String), grants: [{ name: 'tenant', quota: 60, windowSeconds: 60, key: 'k', count: 3 }] },
  ])
  await listening.stop()
})

it('a control plane ignores messages of an unknown format', async () => {
  await using planes = await twoPlanes()
  await planes.bus.publish(rateSubject, { grants: 'all' })
  planes.a.ask(60)
  await planes.report(planes.a)
  expect(planes.b.ask(10)).toBe(0)
})

it('a control plane counts its own requests while the bus is down', async () => {
  const bus = createMemoryBus()
  const failing: Bus = Object.assign(Object.create(bus), {
    subscribe: bus.subscribe.bind(bus),
    publish: () => Promise.reject(new Error('down')),
  })
  const shared = await shareRateLimits({ bus: failing, log }, createRateLimiter(fakeClock()), 5)
  expect(shared.limiter.take(policy, 'k').allowed).toBe(true)
  await expect(shared.publish()).rejects.toThrow('down')
  expect(shared.limiter.take(policy, 'k').allowed).toBe(true)
  await shared.stop()
})
