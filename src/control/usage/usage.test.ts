/**
 * Tests metering with a real database: nothing is counted twice or missed, and a used-up budget puts apps to sleep
 * until it is raised.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { createLiveStats } from '../hosts/index.ts'
import { wakeApp } from '../scaling/index.ts'
import { monthOf } from './rules.ts'
import * as store from './store.ts'
import { budgetKeeping, keepBudget, usageCounting } from './sweep.ts'

const world = await computeWorld({
  idleSeconds: 0,
  budgetGraceHours: 1,
  prices: { vcpuHour: 3600, gibHour: 0, storageGbMonth: 0, egressGb: 0 },
})
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost()
const run = { signal: new AbortController().signal }

const serving = async () => {
  const app = await world.app()
  const { id } = await world.deploy(app)
  await world.until(
    async () => (await world.rows(`SELECT id FROM app WHERE active_deployment_id = $1`, id)).length === 1,
  )
  return { app, id }
}
const usedAt = async (now: Date, month = monthOf(now)) => store.used(db, projectId, month, now)

describe('metered vCPU and memory seconds', () => {
  it("count from the commit that reserves a VM's capacity to the commit that releases it", async () => {
    const { app } = await serving()
    const spans = () =>
      world.rows<{ open: boolean; s: number }>(
        `SELECT ended_at IS NULL AS open, extract(epoch FROM coalesce(ended_at, now()) - started_at)::float8 AS s FROM usage_span`,
      )
    expect(await spans()).toEqual([{ open: true, s: expect.any(Number) }])
    await world.rows(`UPDATE usage_span SET started_at = now() - interval '100 seconds'`)
    const now = new Date()
    expect((await usedAt(now)).vcpuSeconds).toBeCloseTo(100, 0)
    expect((await usedAt(now)).memoryMibSeconds).toBeCloseTo(51_200, -2)
    await world.deploymentsEnd(app)
    expect((await spans())[0]?.open).toBe(false)
    const later = new Date(Date.now() + 1_000_000)
    expect((await usedAt(later, monthOf(now))).vcpuSeconds).toBeLessThan(200)
    await world.rows(`DELETE FROM usage_span`)
  })

  it('are split between two months if a VM runs across the end of a month', async () => {
    await world.rows(
      `INSERT INTO usage_span VALUES (gen_random_uuid(), $1, 2, 512, '2025-01-31T23:59:00Z', '2025-02-01T00:00:30Z')`,
      projectId,
    )
    const now = new Date('2026-01-01T00:00:00Z')
    expect((await usedAt(now, monthOf(now, '2025-01'))).vcpuSeconds).toBe(120)
    expect((await usedAt(now, monthOf(now, '2025-02'))).vcpuSeconds).toBe(60)
    await world.rows(`DELETE FROM usage_span`)
  })
})

describe('metered storage and egress', () => {
  const live = createLiveStats({ now: () => new Date() })
  const sweep = usageCounting({ db, live })
  const volume = (mib: number, at: string) =>
    world.rows(
      `INSERT INTO volume (id, project_id, name, size_mib, created_at) VALUES (gen_random_uuid(), $1, 'v' || gen_random_uuid(), $2, $3)`,
      projectId,
      mib,
      at,
    )

  it('storage is counted exactly once, even across the end of a month and by concurrent sweeps', async () => {
    await volume(100, '2025-06-30T23:00:00Z')
    await world.rows(`UPDATE usage_mark SET counted_until = '2025-06-30T22:00:00Z'`)
    const until = new Date('2025-07-01T02:00:00Z')
    await Promise.all(Array.from({ length: 5 }, () => sweep.run({ ...run, now: until })))
    await sweep.run({ ...run, now: new Date('2025-07-01T01:00:00Z') })
    expect((await usedAt(until, monthOf(until, '2025-06'))).storageMibSeconds).toBeCloseTo(100 * 3600)
    expect((await usedAt(until, monthOf(until, '2025-07'))).storageMibSeconds).toBeCloseTo(100 * 7200)
    await world.rows(`DELETE FROM volume`)
  })

  it('a sweep that fails counts nothing, and the next sweep counts the whole time', async () => {
    await volume(10, '2025-08-01T00:00:00Z')
    await world.rows(`UPDATE usage_mark SET counted_until = '2025-08-01T00:00:00Z'`)
    const until = new Date('2025-08-01T01:00:00Z')
    const crash = db.tx(async tx => {
      await store.addStorage(tx, await store.mark(tx), until, monthOf(until).from)
      throw new Error('the process died')
    })
    await expect(crash).rejects.toThrow('died')
    await sweep.run({ ...run, now: until })
    expect((await usedAt(until)).storageMibSeconds).toBeCloseTo(10 * 3600)
    await world.rows(`DELETE FROM volume`)
  })

  it("egress is the growth of each VM's counter, even if the counter restarts from zero", async () => {
    const { app } = await serving()
    const [vm] = await world.rows<{ id: string }>(`SELECT id FROM vm`)
    const now = new Date()
    const observed = async (txBytes: number, times = 1) => {
      const stats = [{ vmId: vm!.id, atMs: 0, cpuUsage: 0, ramUsedBytes: 0, rxBytes: 0, txBytes }]
      live.record({ ...host.heartbeat(), stats }, Date.now())
      await world.rows(`UPDATE usage_mark SET counted_until = $1`, now)
      for (let n = 0; n < times; n++) await sweep.run({ ...run, now })
      return (await usedAt(now)).egressBytes
    }
    expect(await observed(1000)).toBe(1000)
    expect(await observed(1500, 3)).toBe(1500)
    expect(await observed(200)).toBe(1700)
    await world.deploymentsEnd(app)
    await world.rows(`DELETE FROM usage_span`)
  })
})

describe('a budget that is used up', () => {
  const row = async () => (await world.rows<{ state: string }>(`SELECT state FROM budget`))[0]?.state
  const scale = async (id: string) =>
    (await world.rows<{ s: string }>(`SELECT scale_state AS s FROM app WHERE id = $1`, id))[0]?.s
  const keep = (now = new Date()) => budgetKeeping(world.deps).run({ ...run, now })

  it('causes a warning and a grace period, then puts the apps to sleep; the apps wake when the budget is raised', async () => {
    const { app } = await serving()
    await db.tx(tx => store.setBudget(tx, projectId, 1000))
    // A time in the middle of a month, so that the test does not depend on the current date.
    const now = new Date('2025-05-15T12:00:00Z')
    await world.rows(`UPDATE usage_span SET started_at = $1::timestamptz - interval '850 seconds'`, now)
    await keep(now)
    expect(await row()).toBe('warned')
    await world.rows(`UPDATE usage_span SET vcpus = 100`)
    await keep(now)
    expect(await row()).toBe('grace')
    expect(await scale(app.id)).toBe('active')
    await world.rows(`UPDATE budget SET changed_at = $1::timestamptz - interval '61 minutes'`, now)
    await keep(now)
    expect(await row()).toBe('capped')
    await world.until(async () => (await scale(app.id)) === 'scaled_to_zero')
    await world.until(async () => (await world.rows(`SELECT id FROM vm`)).length === 0)
    await db.tx(tx => wakeApp(tx, app.id))
    expect(await scale(app.id)).toBe('scaled_to_zero')
    await db.tx(async tx => {
      await store.setBudget(tx, projectId, 1_000_000_000)
      await keepBudget(world.deps, tx, projectId, now)
    })
    expect(await row()).toBe('fine')
    await world.until(async () => (await scale(app.id)) === 'active')
    await world.until(async () => (await world.rows(`SELECT id FROM vm WHERE healthy`)).length === 1)
  })

  it('has no effect in the next month', async () => {
    await world.rows(`UPDATE budget SET state = 'capped', month = '2025-01-01T00:00:00Z', monthly_cents = 1000000000`)
    await world.rows(`UPDATE project SET capped_at = now()`)
    await keep()
    expect(await row()).toBe('fine')
    expect(await world.rows(`SELECT capped_at FROM project`)).toEqual([{ capped_at: null }])
  })

  it("is enforced even if an error prevents the enforcement of another project's budget", async () => {
    await world.rows(`INSERT INTO project (id, slug, name, plan, ipv6_prefix)
      VALUES (gen_random_uuid(), 'other', 'other', 'unlimited', 'fd00:1:2:4::/64')`)
    await world.rows(
      `INSERT INTO budget (project_id, monthly_cents) SELECT id, 1000 FROM project ON CONFLICT DO NOTHING`,
    )
    await world.rows(`UPDATE budget SET month = '2025-01-01T00:00:00Z'`)
    let tries = 0
    const tx: typeof db.tx = async work => {
      if (++tries === 1) throw new Error('the connection is lost')
      return db.tx(work)
    }
    const sweep = budgetKeeping({ ...world.deps, db: { ...db, tx } })
    expect(await sweep.run({ ...run, now: new Date() })).toEqual({ budgets: 2, capped: 0, failed: 1 })
    expect(await world.rows(`SELECT FROM budget WHERE month > '2025-01-01T00:00:00Z'`)).toHaveLength(1)
  })
})
