/** What the programs take when nothing happens, and what each VM and each open stream adds. */
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

/** Of an agent with so many simulated VMs, once it has settled. */
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

/** What the others take when nothing happens and nothing is defined, as long after their start. */
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
  goal: 'at rest 120 MiB for the control plane and 60 MiB for an agent; 1 MiB for each VM in the agent, 32 KiB for each deployment',
  covers: ['B27'],
  how: 'Resident memory (VmRSS) of processes that run one program each, some seconds after their start; PostgreSQL, VMs and the bus are not in it. VMs of the agent are simulated: the processes of real ones are not the agent. libvirtd and LXD as they are after their start, without a machine.',
  reading:
    'Built, as the programs are shipped. The first bar is the least that a program of Node with an HTTP server takes (as a built one: without the client of fetch that importing node:http in an ES module loads, 14 MiB), 40 MiB of it pages of Node itself, which all its processes share. The agent over it: 4 MiB of objects after a collection, 2 of a youngest generation that has grown, 1 of what C++ holds, 3 of pages of Node that bare Node does not touch, and what was not collected yet; so 60 would leave 9 for all of it. Flags of V8 for less memory (a smaller youngest generation, optimize-for-size, fewer threads) were worth 0.3 to 1.3 MiB each, one collection 1. From sources each process takes some 35 MiB more, for what strips the types.',
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
    report.verdict('control plane, MiB', idle, 120)
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
    report.verdict('agent, MiB', none ?? NaN, 60)
    report.samples('agent over bare Node', 'MiB', [(none ?? NaN) - floor])
    await peersAtRest(report)
    report.verdict('memory of a VM in the agent, MiB', ((some ?? NaN) - (none ?? NaN)) / vms[1], 1)
  },
}
