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

/** Reconnects to the QEMU that an earlier agent started. Undefined if it has exited or does not respond. */
export async function adoptVm(
  { isolation }: Pick<QemuDeps, 'isolation'>,
  home: VmHome,
  running: Running,
  { fromSeq, watcher, madeBy }: { readonly fromSeq: number; readonly watcher: Watcher; readonly madeBy: string },
): Promise<RunningVm | undefined> {
  // Also compare the working directory: after a reboot of the host, an unrelated process may have the same pid and
  // start time.
  const cwd = await readlink(`/proc/${running.process.pid}/cwd`).catch(() => '')
  if (!isRunning(running.process) || cwd !== (await realpath(home.dir))) return undefined
  try {
    const links = await connectVm(home.dir, fromSeq, watcher)
    // The migration to this host was not finished: the VM still runs on the source.
    if (hasMark(home.dir, 'arriving') || asObject(await links.qmp.execute('query-status')).status === 'inmigrate')
      throw new Error('the migration of the VM to this host was not completed')
    const console = await openConsole(home.dir)
    const { tap } = readNotes(running.prepared)
    // A paused guest does not answer. Either its workload still runs, or the agent reported the workload's exit before
    // the agent was restarted.
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
    // The process cannot be managed without its sockets, so it is killed.
    await endProcess(running)
    return undefined
  }
}
