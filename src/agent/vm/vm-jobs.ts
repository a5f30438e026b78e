/** Operations on a running VM. They run between two steps of the VM's reconciliation. */
import type { SnapshotPut, VmExec, VmExecAnswer, VmSpec } from '../../contract/agent.ts'
import type { SessionAnswer, SessionRequest } from '../../contract/agent/session.ts'
import type { SessionInput } from '../../contract/agent/session-bytes.ts'
import type { Driver, RunningVm, SnapshotMade } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import type { ActorDeps } from './deps.ts'
import { notRunning } from './jobs.ts'
import { quiesce } from './quiesce.ts'
import type { VmRecordFile } from './record-file.ts'
import { snapshotVm } from './snapshot.ts'
import type { VmProcess } from './vm-process.ts'

type Job<T> = (runningVm: RunningVm) => Promise<T>

interface SnapshotJobDeps extends Pick<ActorDeps, 'driver' | 'volumes'> {
  readonly recordFile: VmRecordFile
  readonly vmProcess: VmProcess
  readonly spec: () => VmSpec
}

/** Takes a snapshot of the VM, and writes its files into the directory. */
export const snapshotJob =
  (
    { driver, volumes, recordFile, vmProcess, spec }: SnapshotJobDeps,
    desired: SnapshotPut,
    dir: string,
  ): Job<SnapshotMade> =>
  async runningVm => {
    const { healthy } = vmProcess
    const { image } = spec()
    const onQuiesced = () => vmProcess.unhealthy()
    const made = await snapshotVm({ driver, volumes, recordFile, onQuiesced }, runningVm, desired, dir)
    return { ...made, image, healthy }
  }

/**
 * Runs `act` while the guest has flushed the volume and is paused. Returns the duration of the pause in milliseconds.
 */
export const quiesceJob =
  (recordFile: VmRecordFile, volumeId: string, act: () => Promise<void>): Job<number> =>
  runningVm => {
    const disk = diskOf(recordFile, volumeId)
    return disk ? quiesce(runningVm, disk, recordFile.record.paused, act) : Promise.reject(notRunning())
  }

/** Makes the guest use the new size of a volume that has grown. */
export const growJob =
  (recordFile: VmRecordFile, volumeId: string, sizeMib: number): Job<void> =>
  async runningVm => {
    const disk = diskOf(recordFile, volumeId)
    // With a read-only attachment, the guest cannot grow the file system.
    if (!disk || disk.readOnly) return
    if (recordFile.record.paused)
      throw new StepError('vm_paused', 'the VM with the volume is paused: resume the VM first')
    await runningVm.growDisk?.(disk, sizeMib)
  }

/** Serves a request about a session. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
export async function sessionIn(
  { runningVm, sessions }: VmProcess,
  { record }: VmRecordFile,
  driver: Pick<Driver, 'name'>,
  request: SessionRequest | SessionInput,
): Promise<SessionAnswer | Uint8Array> {
  if (!runningVm || record.paused) throw notRunning()
  if (!sessions) throw unsupported(driver)
  return 'action' in request ? sessions.serve(request) : sessions.input(request)
}

/** Runs a program in the VM. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
export async function execIn(
  runningVm: RunningVm | undefined,
  { record }: VmRecordFile,
  driver: Pick<Driver, 'name'>,
  { command, timeoutMs }: VmExec,
): Promise<VmExecAnswer> {
  if (!runningVm || record.paused) throw notRunning()
  if (!runningVm.exec) throw unsupported(driver)
  return runningVm.exec(command, timeoutMs)
}

export const unsupported = ({ name }: Pick<Driver, 'name'>): StepError =>
  new StepError('unsupported_by_hypervisor', `${name} does not support this operation`)

const diskOf = ({ record }: VmRecordFile, volumeId: string) =>
  (record.disks ?? []).find(one => one.volumeId === volumeId)

/** The abort reason of a step that a newer desired state replaces. */
export const superseded = new Error('a newer desired state superseded this step')
