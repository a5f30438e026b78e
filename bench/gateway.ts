/**
 * Compares the gateway with nginx and HAProxy, with the same app behind each and alternating measurements in the same
 * run. The metric is the proxy's CPU time per request, that is, the capacity of one core, which does not depend on
 * other load.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { hasProgram } from '../src/lib/programs.ts'
import { viaGateway } from '../test/support/http.ts'
import { until } from '../test/support/wait.ts'
import { type Benchmark, type Report, summarise } from './benchmark.ts'
import {
  type BenchServer,
  startGatewayProcess,
  startNginx,
  startNodeProxy,
  startOurHaproxy,
  startPlainHaproxy,
  startPublisher,
  startUpstream,
} from './gateway-servers.ts'

const rounds = 4
const turnSeconds = 3
/**
 * Duration of the first round in seconds. This round is not counted, because V8 compiles the hot code during the first
 * 100,000 requests or so.
 */
const warmSeconds = 8
const connections = 64
const needed = ['nginx', 'haproxy', 'wrk', 'taskset'] as const

interface Turn {
  readonly perSecond: number
  readonly p99Ms: number
  /** Number of requests per second of CPU time. */
  readonly perCoreSecond: number
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  for (const server of servers) await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const ports = servers.map(server => (server.address() as AddressInfo).port)
  for (const server of servers) await new Promise(resolve => server.close(resolve))
  return ports
}

async function measure(server: BenchServer, seconds: number): Promise<Turn> {
  const before = server.cpuMs()
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-H', 'Host: bench.localhost']
  const { stdout } = await promisify(execFile)('taskset', [
    '-c',
    '1',
    'wrk',
    ...options,
    `http://127.0.0.1:${server.port}/`,
  ])
  const cpuMs = server.cpuMs() - before
  if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(`${server.name}: ${stdout}`)
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1])
  const [, p99 = '', unit = ''] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  const p99Ms = Number(p99) * (unit === 'us' ? 0.001 : unit === 'ms' ? 1 : 1000)
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p99Ms,
    perCoreSecond: (requests / cpuMs) * 1000,
  }
}

async function run(report: Report): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-gateway-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  const [app = 0, nginx = 0, plain = 0, ours = 0, publisher = 0, own = 0, undici = 0, http = 0] = await freePorts(8)
  const keep = async (starting: Promise<BenchServer>) => {
    const server = await starting
    cleanup.defer(() => server.stop())
    return server
  }
  await keep(startUpstream(dir, app, 1))
  const servers = [
    await keep(startNginx(dir, nginx, app, 0)),
    await keep(startPlainHaproxy(dir, plain, app, 0)),
    await keep(startOurHaproxy(dir, ours, publisher, 0)),
    await keep(startGatewayProcess(own, app, 0, process.env['MOTE_BENCH_PROFILE'] ?? '')),
    await keep(startNodeProxy('undici', undici, app, 0)),
    await keep(startNodeProxy('http', http, app, 0)),
  ]
  await keep(startPublisher(dir, publisher, app, 1))
  for (const { port } of servers)
    await until(async () => (await viaGateway(port, 'bench.localhost')).status === 200, {
      timeoutMs: 10_000,
      what: 'the server to serve the app',
    })
  const measured = new Map(servers.map(server => [server.name, [] as Turn[]]))
  for (let round = 0; round <= rounds; round++)
    for (const server of servers) {
      const turn = await measure(server, round === 0 ? warmSeconds : turnSeconds)
      // The first round only warms up the servers.
      if (round > 0) measured.get(server.name)?.push(turn)
    }
  const median = (name: string, key: keyof Turn) => summarise((measured.get(name) ?? []).map(turn => turn[key])).median
  for (const { name } of servers) {
    const [rate, p99, core] = [median(name, 'perSecond'), median(name, 'p99Ms'), median(name, 'perCoreSecond')]
    report.note(
      `${name.padEnd(20)} ${rate.toFixed(0).padStart(7)} requests/s, p99 ${p99.toFixed(1)} ms, ${core.toFixed(0)} per second of CPU`,
    )
  }
  const share = (name: string) => (median(name, 'perCoreSecond') / median('nginx', 'perCoreSecond')).toFixed(2)
  report.note(
    `requests per second of CPU, relative to nginx: gateway ${share('gateway')}, Node that only forwards ${share('bare node, undici')} (undici), ${share('bare node, http')} (node:http)`,
  )
  report.verdict(
    'requests of nginx / requests of the gateway, per second of CPU',
    median('nginx', 'perCoreSecond') / median('gateway', 'perCoreSecond'),
    1 / 0.35,
  )
  report.verdict(
    "requests of HAProxy with a handwritten configuration / with Mote's routes, per second of CPU",
    median('haproxy', 'perCoreSecond') / median('haproxy, our routes', 'perCoreSecond'),
    1 / 0.9,
  )
}

export const gateway: Benchmark = {
  name: 'gateway',
  goal: "per core, the gateway serves at least 0.35 times the requests of nginx, and HAProxy with Mote's routes at least 0.9 times those of HAProxy with a handwritten configuration",
  unable: async () => {
    const found = await Promise.all(needed.map(hasProgram))
    const missing = needed.filter((_, n) => !found[n])
    return missing.length > 0 ? `needs ${missing.join(', ')}` : undefined
  },
  run,
}
