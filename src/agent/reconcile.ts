import {
  absentVm,
  type SessionAnswer,
  type SessionInput,
  type SessionRequest,
  type SnapshotPut,
  type VmExec,
  type VmExecAnswer,
  type VmForget,
  type VmLogsRequest,
  type VmObserved,
  type VmPut,
} from '../contract/agent.ts'
import type { SnapshotMade } from './hypervisor/driver.ts'
import { logPaths } from './logs/file.ts'
import type { StoredLine } from './logs/line.ts'
import type { LogFiles } from './logs/search.ts'
import { newestOf } from './logs/segment.ts'
import { isVmId } from './base/vm-id.ts'
import type { StoredVm } from './state.ts'
import { cannotTouch, unseen } from './vm/absent.ts'
import type { VmActor } from './vm/actor.ts'
import { StepError } from './base/step-error.ts'
import { notRunning } from './vm/jobs.ts'
import { forgetVm, openVm, putVm, type ReconcilerDeps, refuseUntouchable, type VmTable } from './vm-table.ts'

/** Manages all VMs of this host. */
export interface Reconciler {
  /** Starts an actor for each stored VM, which adopts the VM if it runs. */
  resume(vms: readonly StoredVm[]): Promise<void>
  /** Stores a VM's desired state. @throws StepError `stale_generation`, `unsupported_by_hypervisor`, `invalid_vm` */
  put(desired: VmPut): Promise<VmObserved>
  /** Removes a VM of which the control plane has no record. @throws StepError `stale_generation` */
  forget(request: VmForget): Promise<VmObserved>
  get(vmId: string): Promise<VmObserved>
  list(): VmObserved[]
  /** Returns the desired state of the VM, if the VM is on this host. */
  desiredOf(vmId: string): VmPut | undefined
  /** Publishes the observed state of the VM, if the VM is on this host. */
  report(vmId: string): void
  /** Adds a line of the host to the VM's log, if the VM is on this host. */
  say(vmId: string, line: string): void
  actors(): Iterable<VmActor>
  logs(request: VmLogsRequest): Promise<StoredLine[]>
  /** Returns the log files of a VM, which may be removed already, after writing all its log lines to them. */
  logFiles(vmId: string): Promise<LogFiles>
  /** Runs a program in a VM. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
  exec(request: VmExec): Promise<VmExecAnswer>
  /** Serves a request about a VM session. @throws StepError as `exec` */
  session(vmId: string, request: SessionRequest | SessionInput): Promise<SessionAnswer | Uint8Array>
  /**
   * Checks that the VM's hypervisor supports snapshots, if the VM is on this host.
   * @throws StepError `unsupported_by_hypervisor`
   */
  checkSnapshot(vmId: string): void
  /**
   * Writes a snapshot of the VM into the directory.
   * @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `volumes_attached`
   */
  takeSnapshot(desired: SnapshotPut, dir: string): Promise<SnapshotMade>
  /** Reconciles the VM after a snapshot was created or removed that it may depend on. */
  poke(vmId: string): void
  /** Runs `act` while the VM is paused. Returns how long the VM was paused, ms. @throws StepError `vm_not_running` */
  quiesce(vmId: string, volumeId: string, act: () => Promise<void>): Promise<number>
  /** Grows the volume in the running VM to its new size. @throws StepError `vm_not_running`, `vm_paused` */
  growVolume(vmId: string, volumeId: string, sizeMib: number): Promise<void>
  /** True if a VM on this host was started from this snapshot, or will be. */
  usesSnapshot(snapshotId: string): boolean
  stop(stopVms: boolean): Promise<void>
}

export function createReconciler(deps: ReconcilerDeps): Reconciler {
  const table: VmTable = { deps, entries: new Map(), untouchable: new Map(), mutex: new Map() }
  const { entries, untouchable, mutex } = table
  const actorOf = (vmId: string) => entries.get(vmId)?.actor
  return {
    resume: vms => resume(table, vms),
    put: desired => putVm(table, desired),
    forget: request => forgetVm(table, request),
    get: async vmId => {
      if (!isVmId(vmId))
        throw new StepError('invalid_vm', `invalid VM id "${vmId}": only letters, digits, - and _ are allowed`)
      refuseUntouchable(table, vmId)
      return actorOf(vmId)?.observed() ?? absentVm(vmId, await deps.state.buriedGeneration(vmId))
    },
    desiredOf: vmId => actorOf(vmId)?.desired,
    say: (vmId, line) => entries.get(vmId)?.vmLog.say(line),
    report: vmId => actorOf(vmId)?.report(),
    list: () => [
      ...[...entries.values()].map(({ actor }) => actor.observed()),
      ...[...untouchable].map(([vmId, hypervisor]) => unseen(vmId, hypervisor)),
    ],
    actors: () => [...entries.values()].map(({ actor }) => actor),
    logs: request => readLogs(table, request),
    logFiles: vmId => logFiles(table, vmId),
    exec: async request => runningActor(table, request.vmId).exec(request),
    session: async (vmId, request) => runningActor(table, vmId).session(request),
    checkSnapshot: vmId => actorOf(vmId)?.checkSnapshot(),
    takeSnapshot: async (desired, dir) => runningActor(table, desired.vmId).takeSnapshot(desired, dir),
    poke: vmId => actorOf(vmId)?.poke(),
    quiesce: async (vmId, volumeId, act) => runningActor(table, vmId).quiesce(volumeId, act),
    growVolume: async (vmId, volumeId, sizeMib) => runningActor(table, vmId).grow(volumeId, sizeMib),
    usesSnapshot: snapshotId => [...entries.values()].some(({ actor }) => actor.snapshotId === snapshotId),
    stop: async stopVms => {
      await Promise.all([...mutex.values()].map(turn => turn.catch(() => undefined)))
      await Promise.all([...entries.values()].map(({ actor }) => actor.stop(stopVms)))
      for (const { news } of entries.values()) news.stop()
    },
  }
}

async function resume(table: VmTable, vms: readonly StoredVm[]): Promise<void> {
  const { drivers, log } = table.deps
  await Promise.all(
    vms.map(async vm => {
      const driver = drivers.get(vm.desired.spec.hypervisor)
      if (driver) return openVm(table, vm, driver).actor.start()
      const { vmId, spec } = vm.desired
      table.untouchable.set(vmId, spec.hypervisor)
      log.error({ vmId }, cannotTouch(spec.hypervisor))
    }),
  )
}

async function readLogs({ deps, entries }: VmTable, request: VmLogsRequest): Promise<StoredLine[]> {
  if (!isVmId(request.vmId))
    throw new StepError('invalid_vm', `invalid VM id "${request.vmId}": only letters, digits, - and _ are allowed`)
  const entry = entries.get(request.vmId)
  if (entry) return entry.vmLog.read(request)
  return newestOf(deps.retainedLogs.segments(request.vmId), request.tail, request.afterUs)
}

async function logFiles({ deps, entries, untouchable }: VmTable, vmId: string): Promise<LogFiles> {
  if (!isVmId(vmId)) return { open: [], closed: [] }
  const entry = entries.get(vmId)
  await entry?.vmLog.flush()
  const isHere = entry !== undefined || untouchable.has(vmId)
  return { open: isHere ? logPaths(deps.state.vmDir(vmId)) : [], closed: deps.retainedLogs.segments(vmId) }
}

/** Returns the actor of the VM. @throws StepError `vm_not_running` if the VM is not on this host */
function runningActor({ entries }: VmTable, vmId: string): VmActor {
  const actor = entries.get(vmId)?.actor
  if (actor) return actor
  throw notRunning()
}
