/**
 * Measures the rate at which requests above a tenant's rate limit are rejected, compared with bare Node that sends the
 * same bytes; and the time per check of the rate limiter with many keys.
 */
import { createRateLimiter } from '../src/control/http/rate-limit.ts'
import { systemClock } from '../src/lib/clock.ts'
import { type Benchmark, median } from './benchmark.ts'
import { drive, startFloor } from './http-load.ts'
import { startPlane, unlimited } from './plane.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 9
const load = { requests: 2000, inFlight: 16 }
const takes = 200_000
const policy = { name: 'tenant', quota: 600, windowSeconds: 60 }

/** Returns the microseconds per check of the rate limiter, with this many keys in turn. */
function takeUs(keys: number): number {
  const limiter = createRateLimiter(systemClock)
  const names = Array.from({ length: keys }, (_, n) => `project:${n}`)
  for (const name of names) limiter.take(policy, name)
  const began = performance.now()
  for (let n = 0; n < takes; n++) limiter.take(policy, names[n % keys] ?? '')
  return ((performance.now() - began) * 1000) / takes
}

export const refuse: Benchmark = {
  name: 'refuse',
  goal: 'per second, at least half as many requests above the rate limit are rejected as bare Node answers',
  covers: ['B25'],
  how: 'A tenant has a limit of one request per minute; 16 of its requests are open at a time, alternating with bare Node that answers the same bytes. Mote parses the request, checks the token, asks the limiter and answers 429 with its headers and a body that states when to retry.',
  reading:
    "Each rejection queried PostgreSQL for the credential (5.9 times the CPU of bare Node) until throttled credentials were cached. Most of the remaining time is spent on Node's writes to the socket, on twice as many headers as bare Node sends, and in Fastify. The limiter's map keeps the order of use: with 50,000 keys it exceeds the CPU cache.",
  async run(report) {
    await using plane = await startPlane({ ...unlimited, MOTE_RATE_TENANT: '1' })
    const ask = { path: '/v1/apps', token: plane.jwt, status: 429 }
    // Use up the requests that the rate limit allows.
    for (let n = 0; n < 5; n++)
      await fetch(`${plane.url}${ask.path}`, { headers: { authorization: `Bearer ${plane.jwt}` } }).then(answer =>
        answer.text(),
      )
    const refused = await fetch(`${plane.url}${ask.path}`, { headers: { authorization: `Bearer ${plane.jwt}` } })
    await using floor = await startFloor(await refused.text())
    const cpu = { product: 0, floor: 0 }
    const found = await inTurns(rounds, {
      product: async () => {
        const before = plane.cpuMs()
        const { perSecond } = await drive(plane.url, ask, load)
        cpu.product += plane.cpuMs() - before
        return perSecond
      },
      floor: async () => {
        const before = floor.cpuMs()
        const { perSecond } = await drive(floor.url, { ...ask, status: 200 }, load)
        cpu.floor += floor.cpuMs() - before
        return perSecond
      },
    })
    report.samples('429', '/s', found.product)
    report.samples('bare Node, same bytes', '/s', found.floor)
    report.note(
      `CPU of the control plane per rejection: ${(cpu.product / cpu.floor).toFixed(2)} times that of bare Node`,
    )
    report.atLeast(
      'rate of rejections with 429 / rate of answers of bare Node',
      ratioOfRounds(found.product, found.floor),
      0.5,
    )
    const sizes = [100, 10_000, 50_000] as const
    const points = sizes.map(at => ({ at, value: median(Array.from({ length: 5 }, () => takeUs(at))) }))
    report.growth({ what: 'one question to the limiter', unit: 'us', along: 'keys', law: 'flat', points })
    report.verdict(
      'time of a query to the limiter with 50,000 keys / with 100 keys',
      (points.at(-1)?.value ?? NaN) / (points[0]?.value ?? NaN),
      3,
    )
  },
}
