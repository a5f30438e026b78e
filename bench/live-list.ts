/**
 * Measures the time to list 100 to 10,000 deployments with the live metrics of their VMs, 100 per page, compared with
 * libvirt and LXD.
 */
import { Pool } from 'undici'
import type { HostHeartbeat } from '../src/contract/agent.ts'
import { type Benchmark, median } from './benchmark.ts'
import { beside } from './beside.ts'
import { drive } from './http-load.ts'
import { startLibvirt } from './libvirt.ts'
import { startLxd } from './lxd.ts'
import { type Plane, startPlane } from './plane.ts'
import { type SeededVm, seedApps, seedServing } from './seed.ts'
import { inTurns, ratioOfRounds, warm } from './turns.ts'

const rounds = 15
const page = 100
const sizes = [100, 1000, 10_000] as const

/** Returns the heartbeats that the hosts of these VMs send each second. */
export function heartbeatsOf(vms: readonly SeededVm[]): HostHeartbeat[] {
  return [...Map.groupBy(vms, ({ hostId }) => hostId)].map(([hostId, own], n) => ({
    hostId,
    name: `bench-${n}`,
    incarnation: 'bench',
    version: '0',
    arch: 'x64',
    network: 'fake',
    vcpus: 10_000,
    memoryMib: 10_000_000,
    diskMib: 100_000_000,
    hypervisors: [],
    vms: null,
    stats: own.map(({ vmId }) => ({ vmId, atMs: 0, cpuUsage: 5, ramUsedBytes: 2 ** 27, rxBytes: 1, txBytes: 1 })),
  }))
}

const shown = (count: number) => count.toLocaleString('en-US')

async function planeWith(vms: number): Promise<Plane> {
  const plane = await startPlane()
  await seedApps(plane.sql, plane.projectId, vms, 'a')
  plane.heartbeat(heartbeatsOf(await seedServing(plane.sql, 'a', 10)))
  return plane
}

/** Returns the milliseconds for all pages of the list, requested one after the other on one connection. */
async function listAll(pool: Pool, jwt: string, vms: number): Promise<number> {
  const headers = { authorization: `Bearer ${jwt}` }
  const began = performance.now()
  for (let offset = 0; offset < vms; offset += page) {
    const path = `/v1/deployments/active?limit=${page}&offset=${offset}`
    const { body } = await pool.request({ path, method: 'GET', headers })
    const rows: unknown = await body.json()
    if (!Array.isArray(rows) || rows.length !== page) throw new Error('the page is not full')
  }
  return performance.now() - began
}

export const liveList: Benchmark = {
  name: 'live-list',
  goal: "the live metrics of 100 and of 1,000 VMs in at most twice the time of libvirt's getAllDomainStats, and in a twentieth of LXD's",
  covers: ['B3'],
  how: 'A client sends GET /v1/deployments/active, one request after the other; the list of 1,000 VMs has ten pages, that of 10,000 a hundred. Hosts push the metrics each second and the control plane holds them in memory, so the list queries no host. This alternates with a libvirtd with the same number of defined but stopped VMs, for which getAllDomainStats reports only states (python3-libvirt: one call without text), and with an LXD with 100 stopped containers (recursion=2). All are warmed up for 2.5 s before the first round.',
  reading:
    'The query of the list once read everything about a deployment (ten subqueries) and took four times as long; now it reads only what the list shows. Until 2026-11-21, 23:50, two fifths of the statement were sequential scans of small tables (docs/decisions/0002-embedded-postgresql.md). Since 2026-11-22 the credential check uses the same round trip (docs/decisions/0073-pipelined-reads-and-writes.md): one page improved from 2.0 to 1.4 times libvirt. Since 04:00 of that day a page skips earlier rows with an index only: 1,000 VMs improved from 2.4 to 1.6 times libvirt, 10,000 from 6.7 to 3.3. The rest is one statement that reads, checks and serializes 100 rows; a page of 10,000 still visits each index entry that it skips (offset). This is the cheapest case for libvirt, which queries running VMs one by one over their monitors.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const ofProduct = async (vms: number) => {
      const plane = cleanup.use(await planeWith(vms))
      const pool = new Pool(plane.url, { connections: 1 })
      cleanup.defer(() => pool.close())
      return () => listAll(pool, plane.jwt, vms)
    }
    const ofLibvirt = async (vms: number) => {
      const libvirt = await beside(report, cleanup, `libvirt with ${vms} machines`, startLibvirt)
      await libvirt?.define(vms)
      return libvirt && (() => libvirt.stats(vms))
    }
    const ofLxd = async (vms: number) => {
      const lxd = await beside(report, cleanup, 'LXD', startLxd)
      await lxd?.create('c', vms, 4)
      const ask = { path: '/1.0/instances?recursion=2' }
      return lxd && (async () => median((await drive(lxd, ask, { requests: 1, inFlight: 1 })).ms))
    }
    const acts = {
      product100: await ofProduct(100),
      product1000: await ofProduct(1000),
      product10000: await ofProduct(10_000),
      libvirt100: await ofLibvirt(100),
      libvirt1000: await ofLibvirt(1000),
      libvirt10000: await ofLibvirt(10_000),
      lxd100: await ofLxd(100),
    }
    const found = await inTurns(rounds, acts, warm)
    for (const vms of sizes) {
      const own = found[`product${vms}`]
      const theirs = found[`libvirt${vms}`]
      report.samples(`${shown(vms)} VMs`, 'ms', own)
      if (theirs.length === 0) continue
      report.samples(`libvirt, getAllDomainStats of ${shown(vms)}`, 'ms', theirs)
      const ratio = ratioOfRounds(own, theirs)
      if (vms === 10_000) report.note(`time of the live list of 10,000 VMs / time of libvirt: ${ratio.toFixed(2)}`)
      else report.verdict(`time of the live list of ${shown(vms)} VMs / time of libvirt`, ratio, 2)
    }
    if (found.lxd100.length > 0) {
      report.samples('LXD, recursion=2 of 100', 'ms', found.lxd100)
      report.atLeast(
        "time of LXD's list / time of the live list, 100 VMs each",
        ratioOfRounds(found.lxd100, found.product100),
        20,
      )
    }
    report.verdict(
      'time of the live list of 1,000 VMs / of 100 VMs',
      ratioOfRounds(found.product1000, found.product100),
      12,
    )
    for (const what of ['product', 'libvirt'] as const) {
      const points = sizes.flatMap(at => {
        const times = found[`${what}${at}`]
        return times.length === 0 ? [] : [{ at, value: median(times) }]
      })
      if (points.length > 0) report.growth({ what, unit: 'ms', along: 'VMs', law: 'linear', points })
    }
  },
}
