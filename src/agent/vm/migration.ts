import type { MigrationObserved, VmPut, VmSpec } from '../../contract/agent.ts'
import type { Volumes } from '../volume/volumes.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Arrival, Driver, LeavingVolumes, RunningVm, MigrationProgress, Prepared } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import type { VmRecordFile } from './record-file.ts'
import type { VmRecord } from './record.ts'

/**
 * The state of a VM's migration, according to the desired state and the VM record. `incoming`: the VM is arriving on
 * this host. `outgoing`: the VM is leaving or will leave. `left`: the VM must not run on this host, because it runs on
 * another one or its arrival failed.
 */
export type MigrationFact = 'none' | 'incoming' | 'outgoing' | 'left'

export function migrationFact({ incoming, outgoing }: VmSpec, { migration }: VmRecord): MigrationFact {
  if (incoming && migration?.migrationId !== incoming.migrationId) return 'incoming'
  if (migration?.role === 'source') {
    if (migration.phase === 'switched') return 'left'
    if (outgoing?.migrationId === migration.migrationId) return isOver(migration) ? 'none' : 'outgoing'
    // The migration was cancelled while the agent was down: the driver has to find out whether the VM has left.
    if (!isOver(migration)) return 'outgoing'
  }
  if (migration?.role === 'target' && incoming) {
    if (migration.phase === 'switched') return 'none'
    return isOver(migration) ? 'left' : 'incoming'
  }
  return outgoing && migration?.migrationId !== outgoing.migrationId ? 'outgoing' : 'none'
}

export function isOver({ phase }: MigrationObserved): boolean {
  return phase === 'switched' || phase === 'cancelled' || phase === 'failed'
}

/** How long to wait until the control plane releases a VM for its switchover, which normally takes seconds. */
const releaseMs = 120_000

/** How long a guest that already runs on this host may take to answer and to receive its new address. */
const settlingMs = 60_000

const nothingYet = { percent: 0, transferredBytes: 0, totalBytes: 0, downtimeMs: null, error: null, uri: null } as const

export interface MigrationDeps {
  readonly driver: Driver
  readonly recordFile: VmRecordFile
  readonly volumes: Pick<Volumes, 'leaving'>
  readonly onChange: () => void
  readonly desired: () => Pick<VmPut, 'spec'>
  /** Resolves no later than when the desired state changes. */
  readonly nextChange: () => Promise<void>
  /** Called when the VM runs on the target host. */
  readonly onLeft: () => void
  /** Called when the arrival of a VM failed, including when its process exited. */
  readonly onLost: () => void
}

/**
 * Migrates the VM to another host. Resolves when the VM has left, or when the migration failed or was aborted and the
 * VM keeps running on this host. The VM record has the outcome.
 */
export async function sendAway(
  deps: MigrationDeps,
  runningVm: RunningVm,
  spec: VmSpec,
  signal: AbortSignal,
): Promise<void> {
  const { driver, recordFile, onChange, onLeft, volumes } = deps
  const known = recordFile.record.migration
  const wanted = spec.outgoing ?? (known && { migrationId: known.migrationId, uri: known.uri ?? '' })
  if (!wanted) throw new Error('BUG: no migration to follow')
  const begun: MigrationObserved = {
    ...nothingYet,
    migrationId: wanted.migrationId,
    uri: wanted.uri,
    role: 'source',
    phase: 'copying',
  }
  const change = (next: Partial<MigrationObserved>) => {
    recordFile.note({ migration: { ...(recordFile.record.migration ?? begun), ...next } })
    onChange()
  }
  await recordFile.save({ migration: begun })
  onChange()
  // The migration was cancelled while the agent was down. The driver checks whether the VM has already left.
  const stop = spec.outgoing ? signal : AbortSignal.abort()
  const release = async () => {
    if (!spec.outgoing?.waits) return
    change({ ready: true })
    await untilReleased(deps, stop)
    change({ ready: false })
  }
  try {
    if (!runningVm.handOver) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot migrate`)
    const { downtimeMs } = await runningVm.handOver(
      wanted.uri,
      throttled(change),
      stop,
      along(driver, recordFile, spec, volumes),
      release,
    )
    onLeft()
    change({ phase: 'switched', percent: 100, downtimeMs })
  } catch (error) {
    change(stop.aborted ? { phase: 'cancelled' } : { phase: 'failed', error: StepError.of(error).message })
  }
  await recordFile.save()
}

/**
 * Waits until the control plane releases the VM by removing `outgoing.waits`.
 * @throws the signal's reason, StepError `not_released`
 */
async function untilReleased({ desired, nextChange }: MigrationDeps, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.timeout(releaseMs)
  while (desired().spec.outgoing?.waits)
    await abortable(nextChange(), AbortSignal.any([signal, limit])).catch((error: unknown) => {
      if (signal.aborted || !limit.aborted) throw error
      throw new StepError('not_released', 'the control plane did not release the VM in time; the VM stays on this host')
    })
}

/** Returns the volumes that move with the VM; undefined if it has none. @throws StepError `volumes_attached` */
function along(
  driver: Driver,
  { record }: VmRecordFile,
  { outgoing }: VmSpec,
  volumes: Pick<Volumes, 'leaving'>,
): LeavingVolumes | undefined {
  const has = record.disks ?? []
  if (has.length === 0) return undefined
  const named = outgoing?.volumes ?? []
  // The migration was cancelled: undo it without sending more volumes.
  if (outgoing === undefined) return volumes.leaving([])
  if (!driver.movesVolumes || has.some(disk => !named.some(one => one.volumeId === disk.volumeId)))
    throw new StepError(
      'volumes_attached',
      `${driver.name} cannot migrate a running VM with volumes: stop the VM first`,
    )
  return volumes.leaving(named)
}

export interface Reception {
  readonly prepare: () => Promise<Prepared>
  /** Starts to listen for the VM. Resolves with undefined if the driver does not support migration. */
  readonly listen: (prepared: Prepared) => Promise<Arrival | undefined>
  readonly signal: AbortSignal
  /** The signal that is aborted when the agent stops. */
  readonly ending: AbortSignal
}

/** Receives a VM from another host. Returns undefined if the migration failed; the VM record has the reason. */
export async function receive(
  { driver, recordFile, onChange, onLost }: MigrationDeps,
  migrationId: string,
  { prepare, listen, signal, ending }: Reception,
): Promise<RunningVm | undefined> {
  const change = async (next: Pick<MigrationObserved, 'phase'> & Partial<MigrationObserved>) => {
    const begun: MigrationObserved = { ...nothingYet, migrationId, role: 'target', phase: 'preparing' }
    const known = recordFile.record.migration
    await recordFile.save({ migration: { ...begun, ...(known?.migrationId === migrationId ? known : {}), ...next } })
    onChange()
  }
  await change({ phase: 'preparing' })
  let arrival: Arrival | undefined
  try {
    arrival = await listen(await prepare())
    if (!arrival) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot migrate`)
    const { running, uri } = arrival
    // From this point on, the new process may become the VM at any time, so a restarted agent must find it in the
    // record.
    await recordFile.save({ running, paused: false })
    await change({ phase: 'listening', uri })
    const runningVm = await untilArrived(arrival, signal, ending)
    await change({ phase: 'switched', percent: 100 })
    return runningVm
  } catch (error) {
    // When the agent stops, the process continues. The next agent checks whether the VM has arrived in the meantime.
    if (ending.aborted && arrival) {
      arrival.detach?.()
      throw error
    }
    const hasRun = arrival?.hasRun?.() === true
    await arrival?.cancel()
    await recordFile.save({ running: null })
    onLost()
    // A guest that has already run on this host has written its latest data to this host's disks.
    if (hasRun) await change({ phase: 'switched', percent: 100 })
    else await change(signal.aborted ? { phase: 'cancelled' } : { phase: 'failed', error: StepError.of(error).message })
    return undefined
  }
}

/**
 * Waits for the arrival. Once the guest has run on this host, this host has its only copy, so a newer desired state
 * does not abort the arrival. It is applied after the arrival.
 */
async function untilArrived(
  { arrived, hasRun }: Arrival,
  signal: AbortSignal,
  ending: AbortSignal,
): Promise<RunningVm> {
  try {
    return await abortable(arrived, signal)
  } catch (error) {
    if (!signal.aborted || ending.aborted || hasRun?.() !== true) throw error
    return abortable(arrived, AbortSignal.any([ending, AbortSignal.timeout(settlingMs)]))
  }
}

/** Limits progress reports to about one per percent. */
function throttled(change: (progress: MigrationProgress) => void): (progress: MigrationProgress) => void {
  let last = -1
  return progress => {
    if (Math.abs(progress.percent - last) < 1) return
    last = progress.percent
    change(progress)
  }
}
