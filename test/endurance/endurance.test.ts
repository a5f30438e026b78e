// Runs on one PostgreSQL only: tests processes, not the database.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { build } from '../../scripts/build.mjs'
import { testDatabase } from '../support/database.ts'
import { natsMissing } from '../support/nats.ts'
import { endurance } from './endurance.ts'
import { growthOf, tableOf } from './growth.ts'

const allowance = { count: 2, pooled: 10, mib: 16 }
const samplesOf = (name: string, values: readonly number[]) => values.map(value => ({ [name]: value }))
const grows = (values: readonly number[], name = 'sockets') => growthOf(samplesOf(name, values), allowance)[0]?.grows

describe('growth', () => {
  const minute = Array.from({ length: 60 }, (_, n) => n)

  it('is detected at one more per second, and at one more every ten seconds', () => {
    expect(grows(minute)).toBe(true)
    expect(grows(minute.map(n => 40 + Math.floor(n / 10)))).toBe(true)
  })
  it('is detected beneath fluctuation', () => {
    expect(grows(minute.map(n => 40 + n / 5 + (n % 3) * 10))).toBe(true)
  })
  it('of pooled sessions counts only beyond the size of a pool', () => {
    const some = minute.map(n => 15 + n / 6)
    expect([grows(some, 'control-0: sockets'), grows(some, 'gateway-0: sockets')]).toEqual([false, true])
    expect(grows(minute, 'control-0: sockets')).toBe(true)
  })
  it('excludes a pool that fills up once, and a level that recovers', () => {
    expect(grows(minute.map(n => (n < 30 ? 4 : 10)))).toBe(false)
    expect(grows(minute.map(n => 40 + (n % 7)))).toBe(false)
    expect(grows(minute.map(n => 100 - n))).toBe(false)
  })
  it('of memory counts only beyond what the garbage collector defers', () => {
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

describe.skipIf(natsMissing)(`two of each program, as they are built ${natsMissing ?? ''}`, () => {
  it('hold as many resources at the end as at the beginning, idle and used', { timeout: 240_000 }, async () => {
    const outDir = join(import.meta.dirname, '..', '..', 'node_modules', '.cache', `mote-endurance-${process.pid}`)
    await using cleanup = new AsyncDisposableStack()
    cleanup.defer(() => rm(outDir, { recursive: true, force: true }))
    await build({ mote: 'src/cli/main.ts' }, outDir)
    const database = cleanup.use(await testDatabase())
    const result = await endurance({
      main: join(outDir, 'mote.js'),
      databaseUrl: database.url,
      observerUrl: database.url.replace(/\/test_\w+\?/, '/postgres?'),
      seconds: 15,
      sampleMs: 500,
      // Too short for a full garbage collection, so the limit for memory is high; a short run is about the counts.
      allowance: { count: 4, pooled: 14, mib: 100 },
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
