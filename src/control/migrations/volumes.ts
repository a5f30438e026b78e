/**
 * Moves VMs that have volumes. One commit assigns the VM and its volumes to the target. Until it is known which host
 * ran the VM last, neither copy of the VM or the volumes is deleted.
 * docs/decisions/0051-moves-of-volumes-and-snapshots.md
 */
import type { DiskSpec } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, go, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import {
  cancelMovesOf,
  completeMovesOf,
  finishCopies,
  lockMoves,
  lockVolumes,
  type VolumeMove,
} from '../moves/index.ts'
import { refreshRoute } from '../routing/index.ts'
import type { Moving } from './workflow.ts'
import * as store from './store.ts'
import * as moving from './plan-store.ts'
import { desiredVm, raiseVmGeneration } from '../vms/index.ts'
import type { DesiredVms } from '../vms/index.ts'

const pollMs = seconds(2)
/**
 * Interval of polls while the VM stops. It is short, because the app is down during that time and no message reports
 * that the VM has stopped.
 */
const stoppingMs = 250
/** Time limit for the VM's stop and the last pass of the copies. */
const haltedMs = minutes(60)
/**
 * Time limit from the commit until the VM is healthy on its new host, where its program may have to replay a log first.
 */
const startMs = minutes(5)

type Why = string

/** True if the VM moves by stop-and-copy: it is stopped on the source and starts on the target. */
export const isCold = (m: Pick<Moving, 'withVolumes' | 'method'>) => m.withVolumes && m.method === 'stop-and-copy'

const over: ReadonlySet<string> = new Set(['cancelling', 'dropping', 'cancelled', 'failed'])

/** Returns the reason why the volumes cannot move any more; undefined while they can. */
export function volumesFailed({ volumes, snapshots }: Moving): Why | undefined {
  const left = snapshots.find(one => over.has(one.state) && one.snapshotWant === 'present')
  if (left) return `snapshot ${left.snapshotName}: ${left.error ?? 'the move of the snapshot was canceled'}`
  const failed = volumes.find(one => over.has(one.state) || one.want === 'cancel')
  return failed && `volume ${failed.volumeName}: ${failed.error ?? 'the move of the volume was canceled'}`
}

/**
 * True once all snapshots that move with the VM, except deleted ones, are complete on the target. The VM does not move
 * before.
 */
export const snapshotsThere = ({ snapshots }: Moving) =>
  snapshots.every(one => one.state === 'complete' || one.snapshotWant === 'absent')

/** True once the target has prepared to receive all volumes. */
export const volumesAwaited = ({ volumes }: Moving) => volumes.every(one => one.state !== 'preparing')

/**
 * Returns the disk of the VM on its new host: in the target's pool, and with a new generation if the VM writes to the
 * volume.
 */
export const diskThere =
  ({ volumes }: Pick<Moving, 'volumes'>) =>
  (disk: DiskSpec): DiskSpec => ({
    ...disk,
    pool: volumes.find(one => one.volumeId === disk.volumeId)?.targetPool ?? disk.pool,
    generation: disk.generation + (disk.readOnly ? 0 : 1),
  })

/** Waits until the volumes and snapshots are copied, during which the VM still runs; then makes the source stop the VM. */
export function preparingCold(m: Moving): Next<'copying'> {
  if (!m.volumes.every(one => one.state === 'copied') || !snapshotsThere(m))
    return wait(pollMs, tx => reportProgress(tx, m))
  return go(
    'copying',
    async tx => {
      await reportProgress(tx, m)
      await store.enter(tx, m.id, 'copying')
      await moving.halt(tx, m.id)
      await store.raise(tx, m.vmId)
      await refreshRoute(tx, m.appId)
      await poke(tx, 'vm', m.vmId)
    },
    haltedMs + minutes(1),
  )
}

/** Waits until the VM has stopped and the last pass of the copies is complete; then assigns the VM to the target. */
export async function copyingCold(
  desiredStates: DesiredVms,
  m: Moving,
  elapsedMs: number,
  signal: AbortSignal,
): Promise<Next<'clearing'> | Why> {
  if (!m.vm) return wait(0)
  if (m.sourceLost || m.targetLost) return 'the source or target host was lost'
  if (elapsedMs > haltedMs) return 'the last writes of the VM could not be copied in time'
  if (m.volumes.length > 0 && m.volumes.every(one => one.state === 'complete')) return settle(m)
  const observed = await desiredStates.put(m.vm, signal)
  if (observed.generation < m.vm.generation || observed.state !== 'stopped') return wait(stoppingMs)
  if (m.volumes.length === 0) return settle(m)
  return wait(pollMs, async tx => {
    await finishCopies(tx, m.id)
    await reportProgress(tx, m)
  })
}

const settle = (m: Moving) => go('clearing', (tx: Tx) => settled(tx, m), minutes(10))

/** Assigns the VM and its volumes to the target. @throws Error when the move was cancelled before this commit */
export async function settled(tx: Tx, m: Moving): Promise<void> {
  // Includes the volumes in shared pools. Sorted in the order in which volumes are locked.
  const disks = await moving.disks(tx, m.vmId)
  await lockVolumes(
    tx,
    disks.map(disk => disk.volumeId),
  )
  await lockMoves(tx, m.id)
  if (!(await moving.commit(tx, m.id))) throw new Error('the move of the volumes was canceled in the meantime')
  await completeMovesOf(tx, m.id)
  await moving.move(tx, m.vmId, m.targetHostId)
  // A lost target host cannot run the VM. The deployment creates another VM, which waits for the volumes.
  if (m.targetLost) await desiredVm(tx, m.vmId, 'absent')
  await refreshRoute(tx, m.appId)
  await poke(tx, 'vm', m.vmId)
  await poke(tx, 'deployment', m.deploymentId)
}

/** Returns which host ran the VM last. While that is not known, returns undefined, and neither host may run the VM. */
export async function lastHostOf(
  desiredStates: DesiredVms,
  m: Moving,
  signal: AbortSignal,
): Promise<'source' | 'target' | undefined> {
  if (!m.row) return 'source'
  const stoppedVm = { ...m.row, want: 'stopped' as const }
  if (!m.sourceLost) {
    const { migration, state } = await desiredStates.put(m.vm ?? stoppedVm, signal)
    if (migration?.migrationId !== m.id) return 'source'
    if (migration.phase === 'switched') return 'target'
    // If the VM has stopped, its process exited before the handover, so the VM never ran on the target.
    return migration.phase === 'copying' && state !== 'stopped' ? undefined : 'source'
  }
  if (m.targetRemoved) return 'source'
  if (m.targetLost) return undefined
  const only = { incoming: { migrationId: m.id }, disk: diskThere(m) }
  const { migration, state } = await desiredStates.put({ ...stoppedVm, hostId: m.targetHostId }, signal, only)
  if (migration?.migrationId === m.id && migration.phase === 'switched') return 'target'
  return state === 'stopped' || state === 'absent' ? 'source' : undefined
}

/**
 * Returns how long to wait for the VM to run on its new host; undefined once the VM runs there, or after a time limit.
 */
export function untilItRuns(m: Moving, elapsedMs: number): Next<never> | undefined {
  if (!isCold(m) || m.downtimeMs !== null || !m.vm || m.targetLost || elapsedMs > startMs) return undefined
  const isThere = m.vm.want === 'paused' ? m.vm.observedState === 'paused' : m.vm.healthy
  return isThere ? wait(0, async tx => void (await moving.ranAgain(tx, m.id))) : wait(stoppingMs)
}

/**
 * Keeps the volumes on the source. Raises the VM's generation, because `lastHostOf` may have sent the desired state
 * `stopped` with the current one.
 */
export async function keepVolumes(tx: Tx, m: Moving): Promise<void> {
  if (!m.withVolumes) return
  await cancelMovesOf(tx, m.id)
  await raiseVmGeneration(tx, m.vmId)
}

async function reportProgress(tx: Tx, { id, volumes }: Moving): Promise<void> {
  const sum = (of: (one: VolumeMove) => number) => volumes.reduce((total, one) => total + of(one), 0)
  const totalBytes = sum(one => one.totalBytes)
  const percent = totalBytes === 0 ? 0 : sum(one => one.percent * one.totalBytes) / totalBytes
  const transferredBytes = sum(one => one.transferredBytes)
  await store.progress(tx, id, {
    percent: Math.round(percent * 10) / 10,
    transferredBytes,
    totalBytes,
    downtimeMs: null,
  })
}
