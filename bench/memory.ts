/** Measures the memory of the idle programs, and of each additional VM and deployment. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Benchmark, median, type Report } from './benchmark.ts'
import { beside } from './beside.ts'
import { programFlags } from '../scripts/build.mjs'
import { builtChild } from './built.ts'
import { startLibvirt } from './libvirt.ts'
import { startLxd } from './lxd.ts'
import { startPlane } from './plane.ts'
import { rssMib, rssOfStartedMib } from './process.ts'
import { seedServing, seedTenants } from './seed.ts'

const settleMs = 5000
const vms = [0, 100, 200] as const

/** Returns the memory of an agent with this many simulated VMs, several seconds after their start. */
async function agentMib(count: number): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  const child = fork(await builtChild('agent-child.ts'), [dir, String(count)], { execArgv: [...programFlags] })
  try {
    await once(child, 'message')
    const samples: number[] = []
    for (let n = 0; n < 5; n++) {
      await pause(settleMs / 5)
      samples.push(rssMib(child.pid ?? 0))
    }
    return median(samples.slice(2))
  } finally {
    child.kill()
    await once(child, 'exit')
    await rm(dir, { recursive: true, force: true })
  }
}

/**
 * Reports the memory of the idle peers without VMs. It is measured as long after their start as that of the product's
 * programs.
 */
async function peersAtRest(report: Report): Promise<void> {
  const peers = { libvirtd: startLibvirt, lxd: startLxd }
  for (const [program, start] of Object.entries(peers)) {
    await using cleanup = new AsyncDisposableStack()
    const peer = await beside<AsyncDisposable>(report, cleanup, program, start)
    if (!peer) continue
    await pause(settleMs)
    report.samples(`${program}, which is agent and control plane of one host`, 'MiB', [rssOfStartedMib(program)])
  }
}

export const memory: Benchmark = {
  name: 'memory',
  goal: 'when idle, a control plane takes at most 120 MiB and an agent 60 MiB, with 1 MiB per VM in the agent and 32 KiB per deployment in the control plane',
  covers: ['B27'],
  how: 'Measures the resident memory (VmRSS) of processes that run one program each, several seconds after their start, without PostgreSQL, VMs and the bus. The VMs of the agent are simulated, because real VMs are separate processes. libvirtd and LXD are measured after their start, without VMs or containers.',
  reading:
    'The programs run from the build. The first bar is the minimum of a Node program with an HTTP server (built, without the HTTP client that an ES module import of node:http loads, 14 MiB); 40 MiB of it are pages of Node that all its processes share. The agent needs in addition: 4 MiB of live objects, 2 MiB of a larger young generation, 1 MiB of C++ objects, 3 MiB of pages of Node that the minimum does not touch, and garbage. The goal of 60 MiB would leave 9 MiB for all of these. V8 flags for less memory (a smaller young generation, optimize-for-size, fewer threads) saved 0.3 to 1.3 MiB each, and a forced garbage collection 1 MiB. Programs that run from sources need some 35 MiB more per process to strip types.',
  async run(report) {
    const bare = fork(await builtChild('floor-child.ts'))
    bare.send('nothing')
    await once(bare, 'message')
    const floor = rssMib(bare.pid ?? 0)
    report.samples('bare Node with an HTTP server', 'MiB', [floor])
    bare.kill()
    await using plane = await startPlane()
    await plane.restart()
    await pause(settleMs)
    const idle = plane.rssMib()
    report.samples('control plane', 'MiB', [idle])
    report.verdict('resident memory of an idle control plane, MiB', idle, 120)
    await seedTenants(plane.sql, 100, 100, 'tenant')
    await seedServing(plane.sql, 'app-', 100)
    await plane.restart()
    await pause(settleMs)
    report.samples('control plane, 10,000 deployments', 'MiB', [plane.rssMib()])
    report.verdict('memory of a deployment in the control plane, KiB', ((plane.rssMib() - idle) * 1024) / 10_000, 32)
    const points: { at: number; value: number }[] = []
    for (const at of vms) points.push({ at, value: await agentMib(at) })
    const [none, some] = points.map(({ value }) => value)
    report.growth({ what: 'agent', unit: 'MiB', along: 'VMs', points })
    report.verdict('resident memory of an idle agent, MiB', none ?? NaN, 60)
    report.samples('agent over bare Node', 'MiB', [(none ?? NaN) - floor])
    await peersAtRest(report)
    report.verdict('memory of a VM in the agent, MiB', ((some ?? NaN) - (none ?? NaN)) / vms[1], 1)
  },
}
