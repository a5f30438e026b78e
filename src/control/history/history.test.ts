import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { type CountsReport, countsSubject, latencyBuckets } from '../../contract/request-counts.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { VmStats } from '../../contract/agent.ts'
import { historyUpkeep, samplesOf } from './sweep.ts'
import * as store from './store.ts'

let system: TestSystem
let user: TestUser
let appId: string
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  appId = (await user.post('/v1/apps', { name: 'shop', git_url: '' })).body.id
})
afterAll(async () => system[Symbol.asyncDispose]())

const counts = (ok: number, failed: number, latency: Readonly<Record<number, number>>) => ({
  appId,
  statuses: [0, ok, 0, 0, failed],
  aborted: 1,
  gatewayErrors: failed,
  bytesIn: 10,
  bytesOut: 100,
  latency: Array.from({ length: latencyBuckets }, (_, bucket) => latency[bucket] ?? 0),
})
const report = (change: Partial<CountsReport>) =>
  system.bus.request(
    countsSubject,
    { reporterId: newId(), seq: 1, atMs: Date.now() - minutes(2), apps: [], ...change },
    { timeoutMs: 5000 },
  )
const history = async (range = '1h') => (await user.get(`/v1/apps/shop/history?range=${range}`)).body
const upkeep = (now: Date, historyDays = 30) =>
  historyUpkeep({ db: system.database.db, config: { historyDays } }).run({
    now,
    signal: new AbortController().signal,
  })
const counted = async (step: number) =>
  (
    await system.database.db.rows<{ requests: number; rows: number; latency: number }>({
      name: `test.counted-${step}`,
      text: `SELECT coalesce(sum(status_2xx + status_5xx), 0)::int AS requests, count(*)::int AS rows,
               coalesce(sum((SELECT sum(n) FROM unnest(latency) n)), 0)::int AS latency
             FROM app_history WHERE step_seconds = ${step}`,
    })
  )[0]

describe('reports of gateways', () => {
  it('are summed over gateways, and each report counts once', async () => {
    const [first, second] = [newId(), newId()]
    const one: Partial<CountsReport> = { reporterId: first, seq: 1, apps: [counts(3, 1, { 4: 4 })] }
    await report(one)
    await report(one)
    await report({ reporterId: second, seq: 1, apps: [counts(5, 0, { 9: 5 })] })
    await report({ reporterId: first, seq: 2, apps: [counts(1, 0, { 4: 1 })] })
    // Sends a delayed copy of the first report.
    await report(one)
    const { totals, points } = await history()
    expect(totals).toMatchObject({ requests: 13, status_2xx: 9, status_5xx: 1, aborted: 3, gateway_errors: 1 })
    expect(totals).toMatchObject({ bytes_in: 30, bytes_out: 300, latency_p50_ms: 7, cpu_usage: null })
    expect(totals.latency_p95_ms).toBeGreaterThan(30)
    expect(points.reduce((sum: number, point: { requests: number }) => sum + point.requests, 0)).toBe(13)
  })
})

it('requests to VMs are added up per deployment, and each report counts once', async () => {
  await system.addAgent({ fake: { imageMs: 1, bootMs: 1, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  const { job_id } = (await user.post('/v1/apps/web/deploy', { image: 'docker.io/library/nginx:1.28' })).body
  const live = async () => (await user.get(`/v1/apps/web/deployments/${job_id}`)).body
  await until(async () => (await live()).status === 'running', { what: 'web serves', timeoutMs: 30_000 })
  const vmId: string = (await live()).vm_id
  const listed = async () => (await user.get('/v1/apps/web/deployments')).body[0]
  expect(await listed()).toMatchObject({ requests: 0, failed_requests: 0 })
  const once = { reporterId: newId(), seq: 1, vms: [{ vmId, requests: 7, failed: 2 }] }
  await report(once)
  await report(once)
  const unknown = { vmId: newId(), requests: 1, failed: 1 }
  await report({ vms: [{ vmId, requests: 3, failed: 0 }, unknown] })
  expect(await listed()).toMatchObject({ requests: 10, failed_requests: 2 })
})

describe('the history of an app', () => {
  it('is hidden from other projects, and refused for an unknown range', async () => {
    const other = await system.user()
    expect((await other.get('/v1/apps/shop/history')).status).toBe(404)
    expect((await user.get('/v1/apps/none/history')).status).toBe(404)
    expect(await user.get('/v1/apps/shop/history?range=2h')).toMatchObject({
      status: 400,
      body: { details: [{ field: 'range' }] },
    })
  })

  it('has the same totals before and after old rows are summed into coarser ones, in every range', async () => {
    const ranges = ['6h', '24h', '7d', '30d']
    const totalsOf = async () => Promise.all(ranges.map(async range => (await history(range)).totals))
    const fine = await counted(30)
    const before = await totalsOf()
    // At this time, all rows have been summed into coarser ones, and the finest rows are deleted.
    const later = new Date(Date.now() + hours(2.5))
    await upkeep(later)
    expect(await counted(300)).toMatchObject({ requests: fine?.requests, latency: fine?.latency })
    expect(await counted(3600)).toMatchObject({ requests: fine?.requests, latency: fine?.latency })
    expect(await totalsOf()).toEqual(before)
    await upkeep(later)
    expect(await counted(3600)).toMatchObject({ requests: fine?.requests })
  })

  it('is deleted with its app', async () => {
    const { id } = (await user.post('/v1/apps', { name: 'brief', git_url: '' })).body
    const rows = () => store.rows(system.database.db, id, [{ step: 30, fromMs: 0, toMs: Date.now() }])
    await report({ apps: [{ ...counts(2, 0, {}), appId: id }] })
    expect(await rows()).toHaveLength(1)
    expect((await user.delete('/v1/apps/brief')).status).toBe(200)
    await until(async () => (await rows()).length === 0, { what: 'the deletion' })
  })

  it('is deleted in several statements when its retention ends', async () => {
    await upkeep(new Date(Date.now() + hours(4)))
    expect(await counted(30)).toMatchObject({ rows: 0 })
    expect((await counted(300))?.rows).toBeGreaterThan(0)
    await upkeep(new Date(Date.now() + hours(24 * 4)))
    expect(await counted(300)).toMatchObject({ rows: 0 })
    expect((await counted(3600))?.rows).toBeGreaterThan(0)
    await upkeep(new Date(Date.now() + hours(24 * 9)), 7)
    expect(await counted(3600)).toMatchObject({ rows: 0 })
  })
})

describe('a report of a gateway', () => {
  it('is ignored if it is malformed, as are unknown apps in it, and an implausible time is replaced with the current time', async () => {
    await report({ apps: [{ ...counts(7, 0, {}), appId: newId() }] })
    await report({ apps: [{ ...counts(7, 0, {}), statuses: [1] }] })
    await report({ apps: [{ ...counts(7, 0, {}), bytesIn: -1 }] })
    const before = (await counted(30))?.requests ?? 0
    await report({ atMs: Date.now() + hours(9), apps: [counts(2, 0, {})] })
    await report({ atMs: 0, apps: [counts(2, 0, {})] })
    expect((await counted(30))?.requests).toBe(before + 4)
    for (const { atMs } of await store.rows(system.database.db, appId, [{ step: 30, fromMs: 0, toMs: 9e12 }]))
      expect(Math.abs(Date.now() - atMs)).toBeLessThan(minutes(5))
  })
})

describe('usage samples', () => {
  const stats = (vmId: string, rxBytes: number): VmStats => ({
    vmId,
    atMs: 0,
    cpuUsage: 20,
    ramUsedBytes: 5,
    rxBytes,
    txBytes: 1,
  })
  const live = (...all: readonly VmStats[]) => ({ get: (id: string) => all.find(one => one.vmId === id) })
  const vms = ['a', 'b'].map(id => ({ id, appId: 'x', memoryMib: 1 }))

  it('add up the VMs of an app, and count the network traffic since the previous sample', () => {
    const first = samplesOf(vms, live(stats('a', 100), stats('b', 7)), undefined)
    expect(first.samples).toMatchObject([
      { cpu_sum: 20, ram_sum: 10, memory_sum: 2 ** 21, replicas_sum: 2, rx_bytes: 0 },
    ])
    // VM a continues. The traffic counter of VM b is lower than before, because b was replaced or moved.
    const second = samplesOf(vms, live(stats('a', 150), stats('b', 5)), first.counters)
    expect(second.samples).toMatchObject([{ rx_bytes: 55, samples: 1 }])
    // VM a has no metrics for a while. Its last traffic counter is kept.
    const third = samplesOf(vms, live(stats('b', 6)), second.counters)
    expect(third.samples).toMatchObject([{ rx_bytes: 1, replicas_sum: 1 }])
    expect(samplesOf(vms, live(stats('a', 160), stats('b', 6)), third.counters).samples[0]?.rx_bytes).toBe(10)
  })

  it('are stored in the same rows as the requests of the same period', async () => {
    const { samples } = samplesOf([{ id: 'a', appId, memoryMib: 1 }], live(stats('a', 1)), new Map())
    const at = new Date(Math.floor((Date.now() - minutes(3)) / 30_000) * 30_000)
    for (let n = 0; n < 2; n++) await store.addUsage(system.database.db, at, samples)
    const [row] = await store.rows(system.database.db, appId, [
      { step: 30, fromMs: at.getTime(), toMs: at.getTime() + 1 },
    ])
    expect(row).toMatchObject({ samples: 2, cpu_sum: 40, cpu_peak: 20, rx_bytes: 2, latency: null })
    const { totals } = await history()
    expect(totals).toMatchObject({ cpu_usage: 20, cpu_peak: 20, memory_bytes: 2 ** 20, replicas: 1, ram_used_bytes: 5 })
  })
})
