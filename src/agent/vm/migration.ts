import type { MigrationObserved, VmPut, VmSpec } from '../../contract/agent.ts'
import type { Volumes } from '../volume/volumes.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Arrival, Driver, LeavingVolumes, RunningVm, MigrationProgress, Prepared } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import type { VmRecordFile } from './record-file.ts'
import type { VmRecord } from './record.ts'

/**
 * What the wish and the record say together. `incoming`: the VM shall arrive here; `outgoing`: it shall leave, or is
 * leaving; `left`: it runs elsewhere now, or did not come: nothing may run here.
 */
export type MigrationFact = 'none' | 'incoming' | 'outgoing' | 'left'

export function migrationFact({ incoming, outgoing }: VmSpec, { migration }: VmRecord): MigrationFact {
  if (incoming && migration?.migrationId !== incoming.migrationId) return 'incoming'
  if (migration?.role === 'source') {
    if (migration.phase === 'switched') return 'left'
    if (outgoing?.migrationId === migration.migrationId) return isOver(migration) ? 'none' : 'outgoing'
    if (!isOver(migration)) return 'outgoing' // cancelled while the agent was down: what became of it has to be seen
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

/** The control plane releases a VM after seconds; without it the guest would stay half-way for ever. */
const releaseMs = 120_000

/** The guest runs; its agent has to answer, and may be told its new address. */
const settlingMs = 60_000

const nothingYet = { percent: 0, transferredBytes: 0, totalBytes: 0, downtimeMs: null, error: null, uri: null } as const

export interface MigrationDeps {
  readonly driver: Driver
  readonly recordFile: VmRecordFile
  readonly volumes: Pick<Volumes, 'leaving'>
  readonly onChange: () => void
  readonly desired: () => Pick<VmPut, 'spec'>
  /** Resolves after the next wish, at the latest. */
  readonly nextChange: () => Promise<void>
  /** The machine runs elsewhere now: forget it here. */
  readonly onLeft: () => void
  /** It did not come, or has ended as it came. */
  readonly onLost: () => void
}

/** Hands the machine over. Resolves when it has gone from here; on failure or abort it runs on, and the record says so. */
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
  // A wish that no longer wants it, seen only after a restart: the driver finds out whether it is too late.
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

/** @throws the signal's reason, StepError `not_released` */
async function untilReleased({ desired, nextChange }: MigrationDeps, signal: AbortSignal): Promise<void> {
  const limit = AbortSignal.timeout(releaseMs)
  while (desired().spec.outgoing?.waits)
    await abortable(nextChange(), AbortSignal.any([signal, limit])).catch((error: unknown) => {
      if (signal.aborted || !limit.aborted) throw error
      throw new StepError('not_released', 'the control plane did not release the VM in time; it stays here')
    })
}

/** What goes with it; undefined: it has no volumes. @throws StepError `volumes_attached` */
function along(
  driver: Driver,
  { record }: VmRecordFile,
  { outgoing }: VmSpec,
  volumes: Pick<Volumes, 'leaving'>,
): LeavingVolumes | undefined {
  const has = record.disks ?? []
  if (has.length === 0) return undefined
  const named = outgoing?.volumes ?? []
  // Cancelled by now: what is under way is undone, and nothing more goes.
  if (outgoing === undefined) return volumes.leaving([])
  if (!driver.movesVolumes || has.some(disk => !named.some(one => one.volumeId === disk.volumeId)))
    throw new StepError('volumes_attached', `${driver.name} takes no volumes along while a VM runs: stop it first`)
  return volumes.leaving(named)
}

export interface Reception {
  readonly prepare: () => Promise<Prepared>
  /** Undefined where the driver has no migration. */
  readonly listen: (prepared: Prepared) => Promise<Arrival | undefined>
  readonly signal: AbortSignal
  /** The agent itself ends. */
  readonly ending: AbortSignal
}

/** Waits for the machine from elsewhere; undefined when it did not come, which the record says. */
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
    // From here on the process may become the VM at any moment: a new agent has to know it.
    await recordFile.save({ running, paused: false })
    await change({ phase: 'listening', uri })
    const runningVm = await untilArrived(arrival, signal, ending)
    await change({ phase: 'switched', percent: 100 })
    return runningVm
  } catch (error) {
    // The next agent looks whether it has arrived in the meantime.
    if (ending.aborted && arrival) {
      arrival.detach?.()
      throw error
    }
    const hasRun = arrival?.hasRun?.() === true
    await arrival?.cancel()
    await recordFile.save({ running: null })
    onLost()
    // It ended here, and what it has written is here.
    if (hasRun) await change({ phase: 'switched', percent: 100 })
    else await change(signal.aborted ? { phase: 'cancelled' } : { phase: 'failed', error: StepError.of(error).message })
    return undefined
  }
}

/**
 * A newer wish is no reason to end a guest that has been let run: it runs nowhere else. Once it is here in order, the next
 * decision stops or adjusts it.
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

/** Told once a percent or so: a beat of hundreds a second helps nobody. */
function throttled(change: (progress: MigrationProgress) => void): (progress: MigrationProgress) => void {
  let last = -1
  return progress => {
    if (Math.abs(progress.percent - last) < 1) return
    last = progress.percent
    change(progress)
  }
}
