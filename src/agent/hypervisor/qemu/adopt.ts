import { readlink, realpath } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRunning } from '../../../lib/process-identity.ts'
import type { RunningVm, Running, VmHome, Watcher, WorkloadState } from '../driver.ts'
import { openConsole } from '../console.ts'
import { parseWorkload } from '../running-vm.ts'
import { endProcess } from '../process.ts'
import { connectVm, qemuVm } from './running-vm.ts'
import type { QemuDeps } from './driver.ts'
import { readNotes } from '../prepare.ts'
import { hasMark } from '../transfer/marks.ts'
import { asObject } from './qmp.ts'

/** Finds the process that an earlier agent left; undefined when it has gone or cannot be talked to. */
export async function adoptVm(
  { isolation }: Pick<QemuDeps, 'isolation'>,
  home: VmHome,
  running: Running,
  fromSeq: number,
  watcher: Watcher,
  madeBy: string,
): Promise<RunningVm | undefined> {
  // The working directory too: after a reboot of the host, pid and start time may by chance be those of a stranger.
  const cwd = await readlink(`/proc/${running.process.pid}/cwd`).catch(() => '')
  if (!isRunning(running.process) || cwd !== (await realpath(home.dir))) return undefined
  try {
    const links = await connectVm(home.dir, fromSeq, watcher)
    // Half of a VM, whose other half runs on where it was.
    if (hasMark(home.dir, 'arriving') || asObject(await links.qmp.execute('query-status')).status === 'inmigrate')
      throw new Error('it has not arrived')
    const console = await openConsole(home.dir)
    const { tap } = readNotes(running.prepared)
    // A paused guest answers nothing; its workload can only be running or have been reported.
    const unanswered: WorkloadState = { state: 'running' }
    const workload = await Promise.race([
      links.guest.ready.then(parseWorkload),
      sleep(2_000, unanswered, { ref: false }),
    ])
    return qemuVm({
      running,
      ...links,
      workload,
      console,
      watcher,
      tap,
      madeBy,
      dir: home.dir,
      fromSeq,
      memoryMib: home.spec.memoryMib,
      isolation,
      vmId: home.vmId,
      cgroupCpuSeconds: () => isolation.cgroups?.cpuSeconds(home.vmId),
    })
  } catch {
    // Alive but not ours to talk to: without its sockets it cannot be run, only ended.
    await endProcess(running)
    return undefined
  }
}
