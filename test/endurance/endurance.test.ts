// Not repeated on the distribution's PostgreSQL: this file tests processes, not the database.
import { describe, expect, it } from 'vitest'
import { runsAll } from '../support/all-examples.ts'
import { testDatabase } from '../support/database.ts'
import { natsMissing } from '../support/nats.ts'
import { builtProgram } from '../support/program.ts'
import { endurance } from './endurance.ts'
import { growthOf, tableOf } from './growth.ts'

const allowance = { count: 2, pooled: 10, mib: 16 }
const samplesOf = (name: string, values: readonly number[]) => values.map(value => ({ [name]: value }))
const grows = (values: readonly number[], name = 'sockets') => growthOf(samplesOf(name, values), allowance)[0]?.grows

describe('growth of a resource', () => {
  const minute = Array.from({ length: 60 }, (_, n) => n)

  it('is detected if one is added per second, or every ten seconds', () => {
    expect(grows(minute)).toBe(true)
    expect(grows(minute.map(n => 40 + Math.floor(n / 10)))).toBe(true)
  })
  it('is detected although the number fluctuates', () => {
    expect(grows(minute.map(n => 40 + n / 5 + (n % 3) * 10))).toBe(true)
  })
  it('is tolerated up to the size of a pool for pooled sessions', () => {
    const some = minute.map(n => 15 + n / 6)
    expect([grows(some, 'control-0: sockets'), grows(some, 'gateway-0: sockets')]).toEqual([false, true])
    expect(grows(minute, 'control-0: sockets')).toBe(true)
  })
  it('is not reported if a pool fills up once, or if the number falls again', () => {
    expect(grows(minute.map(n => (n < 30 ? 4 : 10)))).toBe(false)
    expect(grows(minute.map(n => 40 + (n % 7)))).toBe(false)
    expect(grows(minute.map(n => 100 - n))).toBe(false)
  })
  it('is tolerated for memory up to what the garbage collector may defer', () => {
    const slowly = minute.map(n => 100 + n / 6)
    expect(grows(slowly, 'control-0: MiB')).toBe(false)
    expect(grows(slowly)).toBe(true)
    expect(
      grows(
        minute.map(n => 100 + n / 2),
        'control-0: MiB',
      ),
    ).toBe(true)
  })
})

// Not in `npm test`: the tests of locks and connections count sessions; few changes cause leaks.
describe.skipIf(natsMissing || !runsAll)(`two instances of each built program ${natsMissing ?? ''}`, () => {
  it('hold no more resources at the end than at the beginning, idle or used', { timeout: 240_000 }, async () => {
    await using cleanup = new AsyncDisposableStack()
    const database = cleanup.use(await testDatabase())
    const result = await endurance({
      main: await builtProgram(),
      databaseUrl: database.url,
      observerUrl: database.url.replace(/\/test_\w+\?/, '/postgres?'),
      seconds: 15,
      sampleMs: 500,
      // The memory allowance is high, because the run is too short for a full garbage collection. So this test
      // effectively checks only counts, such as those of sessions and sockets.
      allowance: { count: 6, pooled: 14, mib: 100 },
    })
    expect(result.work).toMatchObject({ requests: expect.any(Number), deployments: expect.any(Number) })
    expect(Math.min(...Object.values(result.work)), 'each kind of work').toBeGreaterThan(0)
    for (const [name, rows] of [
      ['idle', result.idle],
      ['used', result.used],
    ] as const)
      expect(
        rows.filter(row => row.grows),
        tableOf(name, rows),
      ).toEqual([])
  })
})
