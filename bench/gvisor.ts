/**
 * Compares gVisor with emulated QEMU and a bare process: start, restore, exec and computation; and measures a hundred
 * idle sandboxes.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { run } from '../src/lib/exec.ts'
import { freePort } from '../test/support/free-port.ts'
import { type TestAgent, testAgent, testSpec } from '../test/support/agent/agent.ts'
import { type DriverCase, driverCases } from '../test/support/agent/hypervisor.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { inTurns, scaled } from './turns.ts'

const rounds = 9
const idleSandboxes = 100
/** Milliseconds until sandboxes count as idle: the agent raises their timer slack to its maximum after a minute. */
const untilIdleMs = 75_000
const watchedMs = 20_000
const loop = 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'

/** Returns the agent's configuration for gVisor sandboxes on this computer. */
export const sandboxCase = async () => (await driverCases()).find(({ spec }) => spec.hypervisor === 'gvisor')

/** Returns the milliseconds from the call of `act` until a page at the address that it returns responds with 200. */
async function toPage(act: () => Promise<{ host: string; port: number }>): Promise<number> {
  const began = performance.now()
  const { host, port } = await act()
  const answers = () =>
    fetch(`http://${host}:${port}/health`, { signal: AbortSignal.timeout(500) }).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(answers, { what: 'the page', timeoutMs: 30_000, everyMs: 2 })
  return performance.now() - began
}

interface Side {
  readonly host: TestAgent
  readonly one: DriverCase
}

let count = 0
const addressOf = async ({ host }: Side, vmId: string) => {
  const { endpoint } = await host.until(vmId, 'an address', vm => vm.state === 'running' && vm.endpoint !== null)
  return endpoint ?? { host: '', port: 0 }
}

async function started(side: Side, more = {}): Promise<{ vmId: string; ms: number }> {
  const vmId = `vm-${++count}`
  const spec = testSpec({ ...side.one.spec, memoryMib: 256, ...more })
  const ms = await toPage(async () => {
    await side.host.put({ vmId, generation: 1, want: 'running', spec })
    return addressOf(side, vmId)
  })
  return { vmId, ms }
}

async function forget({ host }: Side, vmId: string): Promise<void> {
  await host.request('vm.forget', { vmId, generation: 2 })
  await host.until(vmId, 'gone', vm => vm.state === 'absent')
}

const cold =
  (side: Side, more = {}) =>
  async () => {
    const { vmId, ms } = await started(side, more)
    await forget(side, vmId)
    return ms
  }

/**
 * Returns the milliseconds from sending the VM's desired state until the first program in the VM has returned its
 * output.
 */
const firstExec = (side: Side) => async () => {
  const vmId = `vm-${++count}`
  const began = performance.now()
  await side.host.put({ vmId, generation: 1, want: 'running', spec: testSpec({ ...side.one.spec, memoryMib: 256 }) })
  await side.host.until(vmId, 'running', vm => vm.state === 'running')
  await side.host.exec(vmId, ['echo', 'first'])
  const ms = performance.now() - began
  await forget(side, vmId)
  return ms
}

/** Returns the milliseconds from the start of the sample image's program, without a VM, until it serves a page. */
async function bareProcess(): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  const port = await freePort()
  await run('sh', ['-c', 'echo ok > "$1/health"', 'sh', dir])
  try {
    return await toPage(async () => {
      const child = spawn('busybox', ['httpd', '-f', '-p', `127.0.0.1:${port}`, '-h', dir], { stdio: 'ignore' })
      ended = async () => {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
      return { host: '127.0.0.1', port }
    })
  } finally {
    await ended()
    await rm(dir, { recursive: true, force: true })
  }
}
let ended = async () => {}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await act()
  return performance.now() - began
}

/** Returns the PIDs of all processes of sandboxes: kernel, file server and the stubs of programs. */
function sandboxPids(dataDir: string): number[] {
  const parents = new Map<number, number>()
  const roots: number[] = []
  for (const name of readdirSync('/proc').filter(entry => /^\d+$/.test(entry))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
      parents.set(Number(name), Number(fields[1]))
      const args = readFileSync(`/proc/${name}/cmdline`, 'utf8')
      if (args.startsWith('runsc-') && args.includes(dataDir)) roots.push(Number(name))
    } catch {
      // Ignore a process that has ended.
    }
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (roots.includes(pid) || isBelow(parents.get(pid)))
  return [...parents.keys()].filter(isBelow)
}

const fromProc = (pid: number, file: string, line: RegExp) => {
  try {
    return Number(line.exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
const pssMib = (pid: number) => fromProc(pid, 'smaps_rollup', /^Pss:\s+(\d+) kB$/m) / 1024

/** Returns the CPU time of all threads in milliseconds, more precisely than in clock ticks. */
function cpuMs(pids: readonly number[]): number {
  let total = 0
  for (const pid of pids)
    try {
      for (const thread of readdirSync(`/proc/${pid}/task`))
        total += fromProc(pid, `task/${thread}/schedstat`, /^(\d+)/) / 1e6
    } catch {
      // Ignore a process that has ended.
    }
  return total
}

async function many(report: Report, side: Side): Promise<void> {
  const { dataDir } = side.host.config
  const sum = () => sandboxPids(dataDir).reduce((total, pid) => total + pssMib(pid), 0)
  const first = await started(side)
  const alone = sum()
  const sandboxes = scaled(idleSandboxes)
  const began = performance.now()
  const waiting = Array.from({ length: sandboxes - 1 }, () => undefined)
  const starter = async () => {
    while (waiting.pop() === undefined && waiting.length > 0) await started(side, { memoryMib: 128 })
  }
  await Promise.all([starter(), starter(), starter(), starter()])
  const running = new Set(sandboxPids(dataDir).filter(pid => pssMib(pid) > 0)).size
  report.note(
    `${sandboxes} sandboxes answer after ${Math.round((performance.now() - began) / 100) / 10} s (${running} processes)`,
  )
  const each = (sum() - alone) / (sandboxes - 1)
  report.verdict('memory of one more sandbox (PSS), MiB', each, 20)
  await pause(untilIdleMs)
  const pids = sandboxPids(dataDir)
  const before = cpuMs(pids)
  await pause(watchedMs)
  const share = (100 * (cpuMs(pids) - before)) / watchedMs / sandboxes
  report.verdict('CPU of an idle sandbox, percent of a core', share, 0.2)
  report.verdict(
    'response time of one sandbox while all others run, ms',
    await toPage(() => addressOf(side, first.vmId)),
    300,
  )
}

/** Returns why gVisor sandboxes cannot be measured on this computer, or undefined if they can. */
export async function gvisorMissing(): Promise<string | undefined> {
  const missing = await missingForVms()
  const one = await sandboxCase()
  return missing ?? (one === undefined || one.skip ? (one?.name ?? 'no gVisor') : undefined)
}

export const gvisor: Benchmark = {
  name: 'gvisor',
  goal: 'without KVM, an app in gVisor answers within 0.3 s, is restored within 0.35 s, runs its first program within 0.35 s, computes at native speed (at most 1.1 times the time of a bare process), and takes 20 MiB and 0.2 % of a core while idle, also among 100',
  how: 'One agent, with its drivers for gVisor and for emulated QEMU, alternates with a bare process of the same httpd. The benchmark measures the time from the desired state to HTTP 200 at the address of the VM, from the restore of a snapshot to HTTP 200, from the desired state to the output of a first program, and of a loop in the shell. Then it measures 100 sandboxes: their memory as the proportional set size of all their processes, and the CPU time of all their threads over 20 s, from 75 s after the last start.',
  reading:
    'An idle sandbox is not at rest: the platform of gVisor wakes up every 400 us to control its fast path and has no option for it. Timer slack (src/agent/hypervisor/gvisor/timer-slack.ts) merges these wake-ups; without it a sandbox takes 3 % of a core. The health check of each sandbox, every 10 s after its first minute, and the readings of its memory, every 10 s, are part of the figure.',
  unable: gvisorMissing,
  async run(report) {
    const sandbox = await sandboxCase()
    if (!sandbox) return
    await using one = await testAgent({ ...sandbox.config, maxBoots: 4 })
    await using other = await testAgent({ hypervisor: 'qemu', network: 'tap' })
    const gvisorSide: Side = { host: one, one: sandbox }
    const qemuSide: Side = { host: other, one: { ...sandbox, spec: {} } }
    const sides = { gvisor: gvisorSide, qemu: qemuSide }
    for (const side of Object.values(sides)) {
      const { vmId } = await started(side)
      await side.host.snapshot('snap', vmId)
    }
    const from = { from: { snapshotId: 'snap', renew: true } }
    const starts = await inTurns(rounds, {
      gvisor: cold(gvisorSide),
      qemu: cold(qemuSide),
      bare: bareProcess,
    })
    const own = report.samples('gVisor, desired state to response', 'ms', starts.gvisor)
    report.samples('emulated QEMU, desired state to response', 'ms', starts.qemu)
    report.samples('bare process to page', 'ms', starts.bare)
    report.verdict('time from the desired state to the first response (median), s', own.median / 1000, 0.3)
    const restores = await inTurns(rounds, { gvisor: cold(gvisorSide, from), qemu: cold(qemuSide, from) })
    const restored = report.samples('gVisor, restore to response', 'ms', restores.gvisor)
    report.samples('emulated QEMU, restore to response', 'ms', restores.qemu)
    report.verdict('time from the restore to the first response (median), s', restored.median / 1000, 0.35)
    const execs = await inTurns(rounds, { gvisor: firstExec(gvisorSide), qemu: firstExec(qemuSide) })
    const first = report.samples('gVisor, desired state to output of a program', 'ms', execs.gvisor)
    report.samples('emulated QEMU, desired state to output of a program', 'ms', execs.qemu)
    report.verdict(
      'time from the desired state to the output of a first program (median), s',
      first.median / 1000,
      0.35,
    )
    await computes(report, sides)
    await many(report, gvisorSide)
  },
}

async function computes(report: Report, sides: { readonly gvisor: Side; readonly qemu: Side }): Promise<void> {
  const { vmId: sandbox } = await started(sides.gvisor)
  const { vmId: emulated } = await started(sides.qemu)
  const inside = (side: Side, vmId: string) => () => timed(() => side.host.exec(vmId, ['sh', '-c', loop], 60_000))
  const loops = await inTurns(5, {
    gvisor: inside(sides.gvisor, sandbox),
    qemu: inside(sides.qemu, emulated),
    bare: () => timed(() => run('busybox', ['sh', '-c', loop])),
  })
  const own = report.samples('gVisor, loop', 'ms', loops.gvisor)
  report.samples('emulated QEMU, loop', 'ms', loops.qemu)
  report.verdict(
    'time of a loop in gVisor / as a bare process',
    own.median / report.samples('bare, loop', 'ms', loops.bare).median,
    1.1,
  )
  await Promise.all([forget(sides.gvisor, sandbox), forget(sides.qemu, emulated)])
}
