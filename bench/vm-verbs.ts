/**
 * Measures the time to pause, resume and remove a VM through the agent, compared with QEMU's own commands, with a
 * SIGKILL of the QEMU process, and with libvirt.
 */
import { once } from 'node:events'
import { type TestAgent, testAgent, testSpec } from '../test/support/agent/agent.ts'
import type { VmObserved } from '../src/contract/agent.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { beside } from './beside.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { type Libvirt, startLibvirt } from './libvirt.ts'
import { rawQemu } from './raw-qemu.ts'
import { inTurns } from './turns.ts'

const rounds = 15
const stops = 3

/**
 * Returns the milliseconds from the request until the agent reports that the VM has reached the desired state. Queries
 * the agent every millisecond.
 */
async function desiredFor(
  host: TestAgent,
  vmId: string,
  act: () => Promise<unknown>,
  holds: (vm: VmObserved) => boolean,
): Promise<number> {
  const began = performance.now()
  await act()
  await until(async () => holds(await host.get(vmId)), {
    what: `${vmId} to reach its desired state`,
    timeoutMs: 60_000,
    everyMs: 1,
  })
  return performance.now() - began
}

interface PauseResume {
  readonly pauseMs: number
  readonly resumeMs: number
}

const timed = async (act: () => Promise<unknown>) => {
  const began = performance.now()
  await act()
  return performance.now() - began
}

export const vmVerbs: Benchmark = {
  name: 'vm-verbs',
  goal: 'a VM is paused and resumed within 5 ms (median), and ending it takes at most 25 ms more than a SIGKILL of its process',
  covers: ['B7', 'B8'],
  how: 'Commands are sent to the agent, which stores the desired state durably, carries it out and publishes the observation. For comparison: the same commands over a QMP connection to a bare QEMU, and SIGKILL and wait of such a process. A VM has ended when its process has ended and its tombstone is on disk; the agent removes its tap and its directory after that. libvirt suspends, resumes and destroys a VM with the same memory, without network and disk.',
  reading:
    'Ending a VM is more work than a SIGKILL: the agent asks the guest to end its app and waits for that (7 to 35 ms of an emulated guest), ends the process (5 to 10 ms) and stores the tombstone (fsync). It removes the tap and the rules after that (decision 55), because the kernel takes 20 to 29 ms for each; until 2026-11-21, 19:40, this was part of the time (70 ms in all). Pause and resume store the desired state on disk (fsync) before QEMU receives the command. Until 2026-11-21, 20:00, every second round resumed a running VM and paused a paused one.',
  unable: missingForVms,
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    const host = cleanup.use(await testAgent({ hypervisor: 'qemu', network }))
    const libvirt = await beside(report, cleanup, 'libvirt', startLibvirt)
    await pauseAndResume(report, host, libvirt)
    await end(report, host, libvirt)
  },
}

const desired = (host: TestAgent, vmId: string, want: 'running' | 'paused', generation: number) =>
  host.put({ vmId, generation, want, spec: testSpec() })

async function pauseAndResume(report: Report, host: TestAgent, libvirt: Libvirt | undefined): Promise<void> {
  await desired(host, 'vm', 'running', 1)
  await host.until('vm', 'healthy', vm => vm.healthy)
  await libvirt?.create('paused')
  await using raw = await rawQemu()
  let generation = 1
  const become = (want: 'running' | 'paused') =>
    desiredFor(
      host,
      'vm',
      () => desired(host, 'vm', want, ++generation),
      vm => vm.state === want,
    )
  const found = await inTurns(rounds, {
    product: async () => ({ pauseMs: await become('paused'), resumeMs: await become('running') }),
    raw: async () => ({
      pauseMs: await timed(() => raw.qmp.execute('stop')),
      resumeMs: await timed(() => raw.qmp.execute('cont')),
    }),
    libvirt:
      libvirt && (async () => ({ pauseMs: await libvirt.suspend('paused'), resumeMs: await libvirt.resume('paused') })),
  })
  const pauses = (values: readonly PauseResume[]) => values.map(({ pauseMs }) => pauseMs)
  const resumes = (values: readonly PauseResume[]) => values.map(({ resumeMs }) => resumeMs)
  report.verdict(
    'time to pause a VM (median), ms',
    report.samples('pause', 'ms', pauses(found.product)).median,
    5,
    'B8',
  )
  report.samples('QMP stop', 'ms', pauses(found.raw))
  report.verdict(
    'time to resume a VM (median), ms',
    report.samples('resume', 'ms', resumes(found.product)).median,
    5,
    'B8',
  )
  report.samples('QMP cont', 'ms', resumes(found.raw))
  if (!libvirt) return
  report.samples('libvirt, suspend', 'ms', pauses(found.libvirt))
  report.samples('libvirt, resume', 'ms', resumes(found.libvirt))
  await libvirt.destroy('paused')
}

async function end(report: Report, host: TestAgent, libvirt: Libvirt | undefined): Promise<void> {
  let n = 0
  const found = await inTurns(stops, {
    async end() {
      const vmId = `end-${n++}`
      await desired(host, vmId, 'running', 1)
      await host.until(vmId, 'healthy', vm => vm.healthy)
      return desiredFor(
        host,
        vmId,
        () => host.request('vm.forget', { vmId, generation: 2 }),
        vm => vm.state === 'absent',
      )
    },
    async kill() {
      await using raw = await rawQemu()
      return timed(async () => {
        raw.child.kill('SIGKILL')
        await once(raw.child, 'exit')
      })
    },
    destroy:
      libvirt &&
      (async () => {
        await libvirt.create('ended')
        return libvirt.destroy('ended')
      }),
  })
  if (libvirt) report.samples('libvirt, destroy', 'ms', found.destroy)
  const own = report.samples('end of a VM', 'ms', found.end)
  const kill = report.samples('SIGKILL and wait', 'ms', found.kill)
  report.verdict('time to end a VM minus time of a SIGKILL (medians), ms', own.median - kill.median, 25, 'B7')
}
