import type { Logger } from 'pino'
import {
  subjects,
  type HypervisorName,
  type LogBatch,
  type SnapshotPut,
  type VmExec,
  type VmExecAnswer,
  type VmForget,
  type VmLogsRequest,
  type VmObserved,
  type VmPut,
} from '../contract/agent.ts'
import type { Bus } from '../bus/bus.ts'
import type { Semaphore } from '../lib/semaphore.ts'
import type { Driver, SnapshotMade, SnapshotSource } from './hypervisor/driver.ts'
import type { Guard } from './net/net.ts'
import type { LogLimits } from './logs/limit.ts'
import type { StoredLine } from './logs/line.ts'
import { type VmLog, vmLog } from './logs/vm-log.ts'
import type { Volumes } from './volume/volumes.ts'
import { isVmId } from './base/vm-id.ts'
import { type StateDir, type StoredVm, tailLines } from './state.ts'
import { absent, cannotTouch, unseen } from './vm/absent.ts'
import { VmActor } from './vm/actor.ts'
import { StepError } from './base/step-error.ts'
import { notRunning } from './vm/jobs.ts'
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
  readonly stopGraceMs: number
  /** Resolves when the drivers have been probed. */
  readonly ready: Promise<void>
  readonly volumes: Pick<Volumes, 'open' | 'close' | 'adopt' | 'learn' | 'copy' | 'rewind' | 'leaving' | 'arriving'>
  readonly guard: Guard
  /** @throws StepError `snapshot_missing`, `snapshot_damaged` */
  readonly snapshot: (snapshotId: string) => Promise<Omit<SnapshotSource, 'renew'>>
  readonly hasSnapshot: (snapshotId: string) => boolean
  /** Called when a VM was removed, or its source snapshot has changed. */
  readonly onRelease: () => void
}

/** All VMs of this host. */
export interface Reconciler {
  /** Starts an actor for each stored VM and adopts running VMs. */
  resume(vms: readonly StoredVm[]): Promise<void>
  /** @throws StepError `stale_generation`, `unsupported_by_hypervisor`, `invalid_vm` */
  put(desired: VmPut): Promise<VmObserved>
  /** @throws StepError `stale_generation` */
  forget(request: VmForget): Promise<VmObserved>
  get(vmId: string): Promise<VmObserved>
  list(): VmObserved[]
  /** The desired state of the VM, if it is on this host. */
  desiredOf(vmId: string): VmPut | undefined
  /** Publishes the observed state of the VM, if it is on this host. */
  report(vmId: string): void
  /** Adds a line of the host to the VM's log, if the VM is on this host. */
  say(vmId: string, line: string): void
  actors(): Iterable<VmActor>
  logs(request: VmLogsRequest): Promise<StoredLine[]>
  /** @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
  exec(request: VmExec): Promise<VmExecAnswer>
  /**
   * @throws StepError `unsupported_by_hypervisor` when the VM is on this host and its hypervisor does not support
   * snapshots
   */
  checkSnapshot(vmId: string): void
  /**
   * Writes a snapshot into the directory. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`,
   * `volumes_attached`
   */
  takeSnapshot(desired: SnapshotPut, dir: string): Promise<SnapshotMade>
  /** Reconciles the VM after a snapshot that it may depend on was created or removed. */
  look(vmId: string): void
  /** Runs `act` while the VM is paused. Returns the duration of the pause, ms. @throws StepError `vm_not_running` */
  still(vmId: string, volumeId: string, act: () => Promise<void>): Promise<number>
  /** Lets the guest use the new size of a volume. @throws StepError `vm_not_running`, `vm_paused` */
  growVolume(vmId: string, volumeId: string, sizeMib: number): Promise<void>
  /** Whether a VM on this host was, or will be, started from this snapshot. */
  usesSnapshot(snapshotId: string): boolean
  stop(stopVms: boolean): Promise<void>
}

interface Entry {
  readonly actor: VmActor
  readonly vmLog: VmLog
  readonly news: News
}

export function createReconciler(deps: ReconcilerDeps): Reconciler {
  const entries = new Map<string, Entry>()
  /** VMs whose hypervisor is not configured. They may still run, so they are left alone and not reported as absent. */
  const untouchable = new Map<string, HypervisorName>()
  const refuseUntouchable = (vmId: string) => {
    const hypervisor = untouchable.get(vmId)
    if (hypervisor) throw new StepError('unsupported_by_hypervisor', cannotTouch(hypervisor))
  }
  /**
   * Serializes puts and the removal of one VM: a desired state stored during the removal would recreate the directory.
   */
  const mutex = new Map<string, Promise<unknown>>()

  const open = ({ desired, record }: StoredVm, driver: Driver): Entry => {
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
        bury: () => inTurn(vmId, () => bury(entry)),
      },
      desired,
      record,
    )
    const entry: Entry = { actor, vmLog: log, news }
    entries.set(vmId, entry)
    return entry
  }

  const bury = async ({ actor, vmLog }: Entry): Promise<boolean> => {
    const { vmId, generation, want } = actor.desired
    if (want !== 'absent') return false
    await deps.state.bury(vmId, generation, await vmLog.read({ tail: tailLines, afterUs: 0 }))
    entries.delete(vmId)
    deps.onRelease()
    return true
  }

  const accept = async (desired: VmPut): Promise<VmObserved> => {
    const entry = entries.get(desired.vmId)
    const known = entry?.actor.desired.generation ?? (await deps.state.buriedGeneration(desired.vmId))
    refuseStale(desired.generation, known)
    if (entry) return change(deps, entry, desired)
    if (desired.want === 'absent') {
      await deps.state.bury(desired.vmId, desired.generation, [])
      return absent(desired.vmId, desired.generation)
    }
    if (desired.generation === known) return absent(desired.vmId, known) // a delayed message after the VM was removed
    const driver = driverOf(deps, desired)
    await deps.state.saveDesired(desired)
    const { actor } = open({ desired, record: newRecord }, driver)
    logOf(deps.log, desired).info({ vmId: desired.vmId, generation: desired.generation }, 'VM accepted')
    await actor.start()
    return actor.observed()
  }

  /** Accepts equal generations: control has no record of the VM, so its last desired state does not matter. */
  const forget = async (vmId: string, generation: number): Promise<VmObserved> => {
    const actor = entries.get(vmId)?.actor
    if (!actor) return absent(vmId, await deps.state.buriedGeneration(vmId))
    refuseStale(generation, actor.desired.generation)
    const desired: VmPut = { ...actor.desired, generation, want: 'absent' }
    await deps.state.saveDesired(desired)
    actor.put(desired)
    return actor.observed()
  }

  const changed = (vmId: string, act: () => Promise<VmObserved>): Promise<VmObserved> => {
    if (!isVmId(vmId)) throw new StepError('invalid_vm', 'a VM id has letters, digits, - and _ only')
    refuseUntouchable(vmId)
    return inTurn(vmId, act)
  }

  const inTurn = <T>(vmId: string, act: () => Promise<T>): Promise<T> => {
    const turn = (mutex.get(vmId) ?? Promise.resolve()).catch(() => undefined).then(act)
    mutex.set(vmId, turn)
    return turn.finally(() => mutex.get(vmId) === turn && mutex.delete(vmId))
  }

  return {
    async resume(vms) {
      await Promise.all(
        vms.map(async vm => {
          const driver = deps.drivers.get(vm.desired.spec.hypervisor)
          if (driver) return open(vm, driver).actor.start()
          const { vmId, spec } = vm.desired
          untouchable.set(vmId, spec.hypervisor)
          deps.log.error({ vmId }, cannotTouch(spec.hypervisor))
        }),
      )
    },
    put: desired => changed(desired.vmId, () => accept(withoutKeys(deps, desired))),
    forget: ({ vmId, generation }) => changed(vmId, () => forget(vmId, generation)),
    get: async vmId => {
      if (!isVmId(vmId)) throw new StepError('invalid_vm', 'no such VM id')
      refuseUntouchable(vmId)
      return entries.get(vmId)?.actor.observed() ?? absent(vmId, await deps.state.buriedGeneration(vmId))
    },
    desiredOf: vmId => entries.get(vmId)?.actor.desired,
    say: (vmId, line) => entries.get(vmId)?.vmLog.say(line),
    report: vmId => entries.get(vmId)?.actor.report(),
    list: () => [
      ...[...entries.values()].map(({ actor }) => actor.observed()),
      ...[...untouchable].map(([vmId, hypervisor]) => unseen(vmId, hypervisor)),
    ],
    actors: () => [...entries.values()].map(({ actor }) => actor),
    logs: async request => {
      if (!isVmId(request.vmId)) throw new StepError('invalid_vm', 'no such VM id')
      const entry = entries.get(request.vmId)
      if (entry) return entry.vmLog.read(request)
      const kept = (await deps.state.lastLines(request.vmId)).filter(line => line.atUs > request.afterUs)
      return request.tail === 0 ? [] : kept.slice(-request.tail)
    },
    exec: async request => {
      const actor = entries.get(request.vmId)?.actor
      if (!actor) throw notRunning()
      return actor.exec(request)
    },
    checkSnapshot: vmId => entries.get(vmId)?.actor.checkSnapshot(),
    takeSnapshot: async (desired, dir) => {
      const actor = entries.get(desired.vmId)?.actor
      if (!actor) throw notRunning()
      return actor.takeSnapshot(desired, dir)
    },
    look: vmId => entries.get(vmId)?.actor.look(),
    still: async (vmId, volumeId, act) => {
      const actor = entries.get(vmId)?.actor
      if (!actor) throw notRunning()
      return actor.still(volumeId, act)
    },
    growVolume: async (vmId, volumeId, sizeMib) => {
      const actor = entries.get(vmId)?.actor
      if (!actor) throw notRunning()
      return actor.grow(volumeId, sizeMib)
    },
    usesSnapshot: snapshotId => [...entries.values()].some(({ actor }) => actor.snapshotId === snapshotId),
    stop: async stopVms => {
      await Promise.all([...mutex.values()].map(turn => turn.catch(() => undefined)))
      await Promise.all([...entries.values()].map(({ actor }) => actor.stop(stopVms)))
      for (const { news } of entries.values()) news.stop()
    },
  }
}

/** Moves the keys of volumes to memory: the desired state is stored on disk, and keys must not be. */
function withoutKeys({ volumes }: ReconcilerDeps, desired: VmPut): VmPut {
  const disks = desired.spec.disks.map(({ key, ...disk }) => {
    if (key) volumes.learn(disk.volumeId, key)
    return disk
  })
  return { ...desired, spec: { ...desired.spec, disks } }
}

async function change(deps: ReconcilerDeps, { actor }: Entry, desired: VmPut): Promise<VmObserved> {
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

/** Returns a logger whose lines carry the trace id of the request that created the VM. */
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
