/** Measures the placement rate and the CPU time at rest of one control plane with 10,000 VMs on 100 simulated hosts. */
import { pino } from 'pino'
import { setTimeout as pause } from 'node:timers/promises'
import { createMemoryBus } from '../src/bus/memory.ts'
import { parseControlConfig } from '../src/control/base/config.ts'
import type { Deps } from '../src/control/base/deps.ts'
import { recordHeartbeat } from '../src/control/hosts/index.ts'
import { startControl } from '../src/control/main.ts'
import { connectDb } from '../src/db/connect.ts'
import { type Db, statement } from '../src/db/db.ts'
import { databaseUrl, startPrivateServer, templateName } from '../test/support/global-setup.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { type Counts, counting, describeCounts } from './counting.ts'
import { type InstantHost, instantHost } from './instant-host.ts'
import { makeDeployments, makeProject, placingRunner, placingSql, replicas } from './placing.ts'

/** Number of apps. MOTE_SCALE_APPS sets a smaller number for a quick run. */
const apps = Number(process.env['MOTE_SCALE_APPS'] ?? 1000)
const hostCount = apps / 10
const vms = apps * replicas
/** vCPUs of each host: all hosts together have capacity for five percent more VMs than are placed. */
const vcpusPerHost = Math.ceil((vms / hostCount) * 1.05)

const sql = {
  goOn: statement('bench.goOn', `UPDATE machine SET wake_at = now() WHERE kind = 'vm'`),
  serving: statement<{ count: number }>(
    'bench.serving',
    `SELECT count(*)::int AS count FROM machine WHERE kind = 'deployment' AND phase = 'serving'`,
  ),
}

const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const heapBytes = () => {
  // Collect garbage twice, because only the second collection frees objects with finalizers.
  globalThis.gc?.()
  globalThis.gc?.()
  return process.memoryUsage().heapUsed + process.memoryUsage().external
}

export const scale: Benchmark = {
  name: 'scale',
  goal: '10,000 VMs on 100 hosts: 1,000 placements/s, a full heartbeat of every host without changes in less than 0.5 s of CPU, 32 KiB of memory per VM',
  covers: ['B5', 'B16'],
  how: 'Runs the real control plane, engine and scheduler in one process on a real PostgreSQL, with simulated hosts in the same process that reach each desired state at once.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const awake = setInterval(() => undefined, 1000)
    cleanup.defer(() => clearInterval(awake))
    const server = cleanup.use(await startPrivateServer('embedded'))
    if (!server) throw new Error('no PostgreSQL server programs: run npm install')
    const log = pino({ level: 'fatal' })
    const plain = await connectDb({ url: databaseUrl(server.adminUrl, templateName), log })
    cleanup.defer(() => plain.close())
    const { db, bus, counts } = counting(plain, createMemoryBus())
    cleanup.defer(() => bus.close())
    const config = {
      ...parseControlConfig({ MOTE_SECRET_KEY: 'bench-'.repeat(8), MOTE_CAPTCHA: 'off', MOTE_CPU_OVERCOMMIT: '1' }),
      hostTimeoutSeconds: 3600,
    }
    const hosts = await Promise.all(
      Array.from({ length: hostCount }, (_, n) => instantHost(bus, `host-${n}`, vcpusPerHost)),
    )
    for (const host of hosts) await recordHeartbeat(db, host.describe(true), 1)
    const before = heapBytes()
    await makeDeployments(db, await makeProject(db), 'app', apps)
    await placeAll({ db, bus, config, log }, counts, report)
    const control = await startControl({ config, db, bus, log, host: '127.0.0.1', port: 0 })
    cleanup.defer(() => control.stop())
    await serveAll(db, counts, report)
    await noOpPasses(hosts, counts, report)
    await idle(hosts, counts, report)
    report.verdict(
      'memory per VM in the control plane and the simulated hosts together, KiB',
      (heapBytes() - before) / vms / 1024,
      32,
    )
  },
}

async function placeAll(
  deps: Pick<Deps, 'db' | 'bus' | 'config' | 'log'>,
  counts: Counts,
  report: Report,
): Promise<void> {
  const { db } = deps
  const runner = placingRunner(deps)
  const began = performance.now()
  const cpuBegan = cpuMs()
  counts.reset()
  await runner.start()
  await until(async () => (await db.one(placingSql.placed)).placed === vms)
  const placedMs = performance.now() - began
  const cpuEach = (cpuMs() - cpuBegan) / vms
  report.note(`database and bus, per placement: ${describeCounts(counts, vms)}`)
  await runner.stop()
  report.note(
    `${(vms / (placedMs / 1000)).toFixed(0)} placements/s, ${cpuEach.toFixed(2)} ms of CPU of the process per placement`,
  )
  report.verdict(
    'hosts that are oversold, or whose reservations are not the sum of their VMs',
    (await db.one(placingSql.oversold)).count,
    0,
  )
  report.verdict('time per placement when all VMs are placed at once, ms', placedMs / vms, 1)
  report.verdict(
    'difference of reserved vCPUs between the fullest and the emptiest host / mean of all hosts',
    (await db.one(placingSql.spread)).share,
    0.05,
  )
  await db.run(sql.goOn)
}

async function serveAll(db: Db, counts: Counts, report: Report): Promise<void> {
  const began = performance.now()
  const cpuBegan = cpuMs()
  counts.reset()
  await until(async () => (await db.one(sql.serving)).count === apps)
  const cpuEach = (cpuMs() - cpuBegan) / vms
  report.note(
    `all VMs serve ${seconds(performance.now() - began)} s after the last placement, with ${cpuEach.toFixed(2)} ms of CPU of the process per VM`,
  )
  report.note(`database and bus, per VM from its placement until it serves: ${describeCounts(counts, vms)}`)
}

async function noOpPasses(hosts: readonly InstantHost[], counts: Counts, report: Report): Promise<void> {
  // Wait until the workflows that the placements poked have run.
  await pause(3000)
  const passes: number[] = []
  counts.reset()
  for (let n = 0; n < 5; n++) {
    const began = cpuMs()
    for (const host of hosts) await host.heartbeat(true)
    await pause(1500)
    passes.push(cpuMs() - began)
  }
  report.note(`database and bus, per full heartbeat of a host: ${describeCounts(counts, 5 * hosts.length)}`)
  report.verdict(
    'CPU of the process for a full heartbeat of every host, s',
    report.samples('a full heartbeat of every host', 'ms', passes).median / 1000,
    0.5,
  )
}

/**
 * Measures the CPU time while nothing changes: every host sends a heartbeat per second, of which every fifteenth is a
 * full one.
 */
async function idle(hosts: readonly InstantHost[], counts: Counts, report: Report): Promise<void> {
  const heartbeats = 15
  counts.reset()
  const began = cpuMs()
  for (let n = 0; n < heartbeats; n++) {
    const nextMs = performance.now() + 1000
    for (const host of hosts) await host.heartbeat(n === 0)
    await pause(Math.max(0, nextMs - performance.now()))
  }
  const vmMinutes = (vms * heartbeats) / 60
  report.note(`CPU of the process per minute of an idle VM: ${((cpuMs() - began) / vmMinutes).toFixed(3)} ms`)
  report.note(`database and bus, per minute of an idle VM: ${describeCounts(counts, vmMinutes)}`)
}

const seconds = (ms: number) => (ms / 1000).toFixed(1)

async function until(condition: () => Promise<boolean>): Promise<void> {
  const limitMs = Math.max(300_000, vms * 12)
  for (const end = performance.now() + limitMs; performance.now() < end; await pause(50)) if (await condition()) return
  throw new Error(`it did not happen within ${limitMs / 60_000} minutes`)
}
