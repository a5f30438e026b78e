/**
 * Workflow of the move of one VM snapshot. The snapshot switches to the target in the same commit as the volumes that
 * it has copies of.
 */
import { BusError } from '../../bus/bus.ts'
import type { SnapshotObserved, SnapshotPut, Transfer } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, type Step, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { slowestBytesPerMs } from './copy-timeout.ts'
import { lockGroup, settleGroup } from './group.ts'
import { type Side, hostOf, workflowToMove, pokeMigration, pollMs, unstarted } from './move-workflow.ts'
import type { SnapshotMove } from './snapshot-store.ts'
import * as store from './snapshot-store.ts'

/**
 * Minimum time without progress after which a copy counts as stalled. Added to it is the time for reading all data back
 * at `slowestBytesPerMs`, during which the target reports no progress.
 */
const stuckMs = minutes(5)

type MoveDeps = Pick<Deps, 'db' | 'bus'>

export const snapshotMoveWorkflow = (deps: MoveDeps) =>
  workflowToMove<SnapshotMove>({
    kind: store.snapshotMoveKind,
    noun: 'snapshot',
    rows: {
      lock: (tx, m) => lockGroup(tx, m.groupId),
      enter: store.enter,
      cancel: store.cancel,
      giveUp: store.giveUp,
      release: store.release,
      end: store.end,
    },
    load: id => store.snapshotMove(deps.db, id),
    nameOf: m => m.snapshotName,
    isDeleted: m => m.snapshotWant === 'absent',
    pokeDependents,

    async receive(m, signal) {
      const incoming = { transferId: m.id, sizeBytes: m.sizeBytes, madeBy: m.madeBy ?? '' }
      return (await report(deps, m, 'target', { incoming }, signal)).transfer
    },
    isCopied: m => m.state === 'complete',
    async send(m, signal) {
      const outgoing = { transferId: m.id, uri: m.uri ?? '' }
      return (await report(deps, m, 'source', { taken: true, outgoing }, signal)).transfer
    },
    copied,
    keep: (m, signal) => report(deps, m, 'source', { taken: true }, signal),
    arriving: (m, signal) => arriving(deps, m, signal),
    async isGone(m, side, signal) {
      const desired = { ...desiredOf(m), want: 'absent' as const }
      return (await agentClient(deps.bus, hostOf(m, side)).putSnapshot(desired, signal)).state === 'absent'
    },
    // VMs on the old host may use the snapshot's files until they stop, so the old host is not asked more often.
    removalPollMs: seconds(30),
  })

function copied({ subject: m, now }: Step<SnapshotMove>, observed: Transfer): Next<never> | string {
  if (!isMore(m, observed) && now.getTime() - m.progressedAt.getTime() > stuckMs + m.sizeBytes / slowestBytesPerMs)
    return 'the copy made no progress'
  return wait(pollMs, async tx => {
    await lockGroup(tx, m.groupId)
    await store.progress(tx, m.id, observed)
    if (observed.phase !== 'complete') return
    await store.enter(tx, m.id, 'complete')
    await pokeMigration(tx, m)
    await settleGroup(tx, m.groupId)
  })
}

/** Returns whether the copy has progressed since the last observation. */
const isMore = (m: SnapshotMove, observed: Transfer): boolean =>
  observed.phase === 'complete' || observed.percent > m.percent || observed.transferredBytes !== m.transferredBytes

/** Waits until the target confirms that it has the snapshot. No VM may start from the snapshot before that. */
async function arriving(deps: MoveDeps, m: SnapshotMove, signal: AbortSignal): Promise<Next<never> | undefined> {
  if (m.landed || m.snapshotWant === 'absent') return undefined
  if (m.targetRemoved) return wait(0, tx => lost(tx, m))
  if (m.targetLost) return wait(minutes(1))
  const observed = await report(deps, m, 'target', { arrived: { transferId: m.id } }, signal)
  // Fail, so that the source keeps its copy until an operator has investigated.
  if (observed.state === 'failed')
    throw new Error(`the new host of snapshot ${m.snapshotName} has lost the snapshot: ${observed.error}`)
  if (observed.state !== 'ready' || observed.sha256 !== m.sha256) return wait(pollMs)
  return wait(0, async tx => {
    await store.land(tx, m.id)
    await pokeDependents(tx, m)
  })
}

async function lost(tx: Tx, m: SnapshotMove): Promise<void> {
  await store.lose(tx, m.id, 'the host of the snapshot was removed')
  await pokeDependents(tx, m)
}

const pokeDependents = (tx: Tx, m: SnapshotMove) => poke(tx, 'vm-snapshot', m.snapshotId)

const desiredOf = (m: SnapshotMove): SnapshotPut => ({
  snapshotId: m.snapshotId,
  vmId: m.vmId,
  generation: m.generation,
  want: 'present',
})

/**
 * Sends the desired state to a host, and returns its observation of the snapshot and of this transfer. A permanent
 * refusal counts as a failed transfer.
 */
async function report(
  { bus }: MoveDeps,
  m: SnapshotMove,
  side: Side,
  more: Pick<SnapshotPut, 'incoming' | 'outgoing' | 'arrived' | 'taken'>,
  signal: AbortSignal,
): Promise<Pick<SnapshotObserved, 'state' | 'sha256' | 'error'> & { readonly transfer: Transfer }> {
  try {
    const observed = await agentClient(bus, hostOf(m, side)).putSnapshot({ ...desiredOf(m), ...more }, signal)
    const { transfer } = observed
    return { ...observed, transfer: transfer?.transferId === m.id ? transfer : unstarted(m, side) }
  } catch (cause) {
    if (!(cause instanceof BusError) || cause.remoteCode !== 'invalid_snapshot') throw cause
    return { state: 'creating', sha256: null, error: cause.message, transfer: unstarted(m, side, cause) }
  }
}
