import type { Logger } from 'pino'
import {
  absentVm,
  subjects,
  type HypervisorName,
  type LogBatch,
  type VmForget,
  type VmObserved,
  type VmPut,
} from '../contract/agent.ts'
import type { Bus } from '../bus/bus.ts'
import type { Semaphore } from '../lib/semaphore.ts'
import type { Driver, SnapshotSource } from './hypervisor/driver.ts'
import type { Guard } from './net/net.ts'
import type { LogLimits } from './logs/limit.ts'
import { type VmLog, vmLog } from './logs/vm-log.ts'
import type { Volumes } from './volume/volumes.ts'
import { isVmId } from './base/vm-id.ts'
import { logPaths } from './logs/file.ts'
import type { RetainedLogs } from './logs/retained.ts'
import type { StateDir, StoredVm } from './state.ts'
import { cannotTouch } from './vm/absent.ts'
import { VmActor } from './vm/actor.ts'
import { StepError } from './base/step-error.ts'
import type { HealthTiming } from './vm/health.ts'
import { type News, newsOf } from './vm/news.ts'
import { newRecord } from './vm/record.ts'

export interface ReconcilerDeps {
  readonly state: StateDir
  readonly drivers: ReadonlyMap<HypervisorName, Driver>
  readonly bus: Bus
  readonly log: Logger
  readonly bootSlots: Semaphore
  readonly health: HealthTiming
  readonly logLimits: LogLimits
  readonly retainedLogs: RetainedLogs
  readonly stopGraceMs: number
  /** Resolves when the drivers have been probed. */
  readonly ready: Promise<void>
  readonly volumes: Pick<Volumes, 'open' | 'close' | 'adopt' | 'learn' | 'copy' | 'rewind' | 'leaving' | 'arriving'>
  readonly guard: Guard
  /** Returns a stored snapshot by its id. @throws StepError `snapshot_missing`, `snapshot_damaged` */
  readonly snapshot: (snapshotId: string) => Promise<Omit<SnapshotSource, 'renew'>>
  readonly hasSnapshot: (snapshotId: string) => boolean
  /** Called when a VM was removed, or when it no longer depends on the same snapshot. */
  readonly onRelease: () => void
}

export interface VmEntry {
  readonly actor: VmActor
  readonly vmLog: VmLog
  readonly news: News
}

/** The VMs of this host. */
export interface VmTable {
  readonly deps: ReconcilerDeps
  readonly entries: Map<string, VmEntry>
  /**
   * VMs whose hypervisor is not configured on this agent. They may still run, so the agent does not touch them, and
   * does not report them as absent.
   */
  readonly untouchable: Map<string, HypervisorName>
  /**
   * Runs changes and the removal of one VM one after the other: a desired state that is stored during the removal would
   * recreate the VM's directory.
   */
  readonly mutex: Map<string, Promise<unknown>>
}

/** Creates the actor, the log and the reporter of a VM, and adds the VM to the table. */
export function openVm(table: VmTable, { desired, record }: StoredVm, driver: Driver): VmEntry {
  const { deps, entries } = table
  const { vmId } = desired
  const log = openLog(deps, () => entries.get(vmId)?.actor.desired ?? desired)
  const news = newsOf(observed => {
    deps.bus
      .publish(subjects.observed(deps.state.hostId), observed)
      .catch((err: unknown) => deps.log.warn({ err }, 'cannot publish; the next full heartbeat repeats it'))
  })
  const actor = new VmActor(
    {
      driver,
      vmLog: log,
      dir: deps.state.vmDir(vmId),
      log: logOf(deps.log, desired),
      ready: deps.ready,
      bootSlots: deps.bootSlots,
      health: deps.health,
      stopGraceMs: deps.stopGraceMs,
      volumes: deps.volumes,
      snapshot: deps.snapshot,
      guard: deps.guard,
      hasSnapshot: deps.hasSnapshot,
      saveRecord: next => deps.state.saveRecord(vmId, next),
      onObserved: news.report,
      bury: () => inTurn(table, vmId, () => bury(table, entry)),
    },
    desired,
    record,
  )
  const entry: VmEntry = { actor, vmLog: log, news }
  entries.set(vmId, entry)
  return entry
}

/** Implements `Reconciler.put`, with its errors. */
export const putVm = (table: VmTable, desired: VmPut): Promise<VmObserved> =>
  changed(table, desired.vmId, () => accept(table, withoutKeys(table.deps, desired)))

/** Implements `Reconciler.forget`, with its errors. */
export const forgetVm = (table: VmTable, request: VmForget): Promise<VmObserved> =>
  changed(table, request.vmId, () => forget(table, request))

/** Refuses a request about a VM whose hypervisor is not configured. @throws StepError `unsupported_by_hypervisor` */
export function refuseUntouchable({ untouchable }: VmTable, vmId: string): void {
  const hypervisor = untouchable.get(vmId)
  if (hypervisor) throw new StepError('unsupported_by_hypervisor', cannotTouch(hypervisor))
}

/** Removes the VM from the table and from the disk. Returns false, without removing it, if the VM is desired again. */
async function bury({ deps, entries }: VmTable, { actor, vmLog: log }: VmEntry): Promise<boolean> {
  const { vmId, generation, want, spec } = actor.desired
  if (want !== 'absent') return false
  await log.flush()
  // Pass the older log file first, because the lines in each file are ordered in the same way.
  await deps.retainedLogs.take({ vmId, appId: spec.appId }, logPaths(deps.state.vmDir(vmId)).toReversed())
  await deps.state.bury(vmId, generation)
  entries.delete(vmId)
  deps.onRelease()
  return true
}

async function accept(table: VmTable, desired: VmPut): Promise<VmObserved> {
  const { deps } = table
  const entry = table.entries.get(desired.vmId)
  const known = entry?.actor.desired.generation ?? (await deps.state.buriedGeneration(desired.vmId))
  refuseStale(desired.generation, known)
  if (entry) return change(deps, entry, desired)
  if (desired.want === 'absent') {
    await deps.state.bury(desired.vmId, desired.generation)
    return absentVm(desired.vmId, desired.generation)
  }
  // the message was delayed, and the VM is already removed
  if (desired.generation === known) return absentVm(desired.vmId, known)
  const driver = driverOf(deps, desired)
  await deps.state.saveDesired(desired)
  const { actor } = openVm(table, { desired, record: newRecord }, driver)
  logOf(deps.log, desired).info({ vmId: desired.vmId, generation: desired.generation }, 'VM accepted')
  await actor.start()
  return actor.observed()
}

/** Removes a VM of which the control plane has no record. The request may have the VM's generation or a newer one. */
async function forget({ deps, entries }: VmTable, { vmId, generation }: VmForget): Promise<VmObserved> {
  const actor = entries.get(vmId)?.actor
  if (!actor) return absentVm(vmId, await deps.state.buriedGeneration(vmId))
  refuseStale(generation, actor.desired.generation)
  const desired: VmPut = { ...actor.desired, generation, want: 'absent' }
  await deps.state.saveDesired(desired)
  actor.put(desired)
  return actor.observed()
}

function changed(table: VmTable, vmId: string, act: () => Promise<VmObserved>): Promise<VmObserved> {
  if (!isVmId(vmId))
    throw new StepError('invalid_vm', `invalid VM id "${vmId}": only letters, digits, - and _ are allowed`)
  refuseUntouchable(table, vmId)
  return inTurn(table, vmId, act)
}

function inTurn<T>({ mutex }: VmTable, vmId: string, act: () => Promise<T>): Promise<T> {
  const turn = (mutex.get(vmId) ?? Promise.resolve()).catch(() => undefined).then(act)
  mutex.set(vmId, turn)
  return turn.finally(() => mutex.get(vmId) === turn && mutex.delete(vmId))
}

/** Keeps the keys of volumes in memory and removes them from the desired state, which is stored on disk. */
function withoutKeys({ volumes }: ReconcilerDeps, desired: VmPut): VmPut {
  const disks = desired.spec.disks.map(({ key, ...disk }) => {
    if (key) volumes.learn(disk.volumeId, key)
    return disk
  })
  return { ...desired, spec: { ...desired.spec, disks } }
}

async function change(deps: ReconcilerDeps, { actor }: VmEntry, desired: VmPut): Promise<VmObserved> {
  if (desired.spec.hypervisor !== actor.desired.spec.hypervisor) {
    throw new StepError('invalid_vm', 'a VM cannot change its hypervisor')
  }
  if (desired.generation > actor.desired.generation) {
    await deps.state.saveDesired(desired)
    actor.put(desired)
    deps.onRelease()
  }
  return actor.observed()
}

function refuseStale(generation: number, known: number): void {
  if (generation >= known) return
  throw new StepError(
    'stale_generation',
    `generation ${generation} is older than ${known}, which this host has already accepted`,
  )
}

function driverOf(deps: ReconcilerDeps, { spec }: VmPut): Driver {
  const driver = deps.drivers.get(spec.hypervisor)
  if (driver) return driver
  throw new StepError('unsupported_by_hypervisor', `this host does not offer ${spec.hypervisor}`)
}

/** Returns a logger that adds the trace id of the request that created the VM. */
function logOf(log: Logger, { traceparent }: VmPut): Logger {
  const traceId = traceparent?.split('-')[1]
  return traceId === undefined ? log : log.child({ trace_id: traceId })
}

function openLog(deps: ReconcilerDeps, desired: () => VmPut): VmLog {
  const { vmId } = desired()
  return vmLog({
    vmId,
    dir: deps.state.vmDir(vmId),
    limits: deps.logLimits,
    nowMs: () => performance.timeOrigin + performance.now(),
    onError: err => deps.log.error({ vmId, err }, 'cannot store log lines'),
    publish: async batch => {
      const { projectId, appId, deploymentId } = desired().spec
      const subject = subjects.log({ hostId: deps.state.hostId, projectId, appId, deploymentId, vmId })
      await deps.bus.publish(subject, { ...batch, deploymentId } satisfies LogBatch)
    },
  })
}
