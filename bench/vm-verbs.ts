/** Pause, resume and the end of a VM through the agent, beside QEMU's own commands and a SIGKILL of the same program. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectQmp, type Qmp } from '../src/agent/hypervisor/qemu/qmp.ts'
import { type TestAgent, testAgent, testSpec } from '../src/agent/testing.ts'
import type { VmObserved } from '../src/contract/agent.ts'
import { until } from '../test/support/wait.ts'
import type { Benchmark } from './benchmark.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { inTurns } from './turns.ts'

const rounds = 15
const stops = 3

/** A machine of QEMU with as much memory as the VMs of the product, halted at its first instruction. */
async function rawQemu(): Promise<{ readonly child: ChildProcess; readonly qmp: Qmp } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  const args = [
    '-M',
    'microvm',
    '-m',
    '128',
    '-nodefaults',
    '-display',
    'none',
    '-qmp',
    'unix:qmp.sock,server=on,wait=off',
  ]
  const child = spawn('qemu-system-x86_64', args, { cwd: dir, stdio: 'ignore' })
  const qmp = await until(() => connectQmp(dir, 'qmp.sock'), { what: 'QEMU answers', timeoutMs: 20_000 })
  return {
    child,
    qmp,
    async [Symbol.asyncDispose]() {
      qmp.close()
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Milliseconds from the wish until the agent says that it is so; asked each millisecond. */
async function wished(
  host: TestAgent,
  vmId: string,
  act: () => Promise<unknown>,
  holds: (vm: VmObserved) => boolean,
): Promise<number> {
  const began = performance.now()
  await act()
  await until(async () => holds(await host.get(vmId)), { what: `${vmId} is as wished`, timeoutMs: 60_000, everyMs: 1 })
  return performance.now() - began
}

const timed = async (act: () => Promise<unknown>) => {
  const began = performance.now()
  await act()
  return performance.now() - began
}

export const vmVerbs: Benchmark = {
  name: 'vm-verbs',
  goal: 'a VM is paused and resumed within 5 ms (median), and ended within 25 ms over a SIGKILL of its process',
  covers: ['B7', 'B8'],
  how: 'Through the agent: wish stored durably, carried out, told on the bus. Beside it the same two commands over a QMP connection to a bare QEMU, and SIGKILL and wait of such a process. Ending a VM also gives back its disk, its directory and its place on the network.',
  reading:
    'The end of a VM is not the same work as a SIGKILL: the agent asks the guest to end its app in order and waits for that (7 to 35 ms of an emulated guest), ends the process (10), and takes its network away: the kernel removes a tap in 20 to 29 ms and a chain of rules in 20 to 28, side by side, whoever asks it to. Pause and resume store the wish on disk (fsync) before QEMU is told.',
  unable: missingForVms,
  async run(report) {
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using host = await testAgent({ hypervisor: 'qemu', network })
    const spec = testSpec()
    const wish = (vmId: string, want: 'running' | 'paused', generation: number) =>
      host.put({ vmId, generation, want, spec })
    await wish('vm', 'running', 1)
    await host.until('vm', 'healthy', vm => vm.healthy)
    let generation = 1
    {
      await using raw = await rawQemu()
      const found = await inTurns(rounds, {
        pause: () =>
          wished(
            host,
            'vm',
            () => wish('vm', 'paused', ++generation),
            vm => vm.state === 'paused',
          ),
        rawPause: () => timed(() => raw.qmp.execute('stop')),
        resume: () =>
          wished(
            host,
            'vm',
            () => wish('vm', 'running', ++generation),
            vm => vm.state === 'running',
          ),
        rawResume: () => timed(() => raw.qmp.execute('cont')),
      })
      report.verdict('pause, ms', report.samples('pause', 'ms', found.pause).median, 5, 'B8')
      report.samples('QMP stop', 'ms', found.rawPause)
      report.verdict('resume, ms', report.samples('resume', 'ms', found.resume).median, 5, 'B8')
      report.samples('QMP cont', 'ms', found.rawResume)
    }
    let n = 0
    const found = await inTurns(stops, {
      async end() {
        const vmId = `end-${n++}`
        await wish(vmId, 'running', 1)
        await host.until(vmId, 'healthy', vm => vm.healthy)
        return wished(
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
    })
    const end = report.samples('end of a VM', 'ms', found.end)
    const kill = report.samples('SIGKILL and wait', 'ms', found.kill)
    report.verdict('end of a VM over SIGKILL (medians), ms', end.median - kill.median, 25, 'B7')
  },
}
