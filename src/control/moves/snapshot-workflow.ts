/**
 * The move of one snapshot of a VM: its new host gets its files, and has it from the commit on in which it gets the volumes that the
 * snapshot has copies of; what is left at the old one goes after that. docs/decisions/0051-moves-of-volumes-and-snapshots.md
 */
import { BusError } from '../../bus/bus.ts'
import type { SnapshotObserved, SnapshotPut, Transfer } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { copyingAlertMs, slowestBytesPerMs } from './copy-timeout.ts'
import { cancelGroup, lockGroup, settleGroup } from './group.ts'
import type { SnapshotMove } from './snapshot-store.ts'
import * as store from './snapshot-store.ts'

const preparingMs = minutes(2)
/**
 * Time without progress after which a copy counts as stalled. The target may be reading all data back, which takes at
 * most the time at `slowestBytesPerMs`.
 */
const stuckMs = minutes(5)
/** Changes arrive as messages; this poll covers lost messages. */
const pollMs = seconds(5)
/** VMs on the old host may use its files for as long as they run. */
const stillUsedMs = seconds(30)

type MoveDeps = Pick<Deps, 'db' | 'bus'>
interface Moment {
  readonly subject: SnapshotMove
  readonly signal: AbortSignal
  readonly enteredAt: Date
  readonly now: Date
}

export const snapshotMoveWorkflow = (deps: MoveDeps) =>
  workflow<SnapshotMove>()({
    kind: store.snapshotMoveKind,
    edges: {
      preparing: ['copying', 'cancelling'],
      copying: ['clearing', 'cancelling'],
      clearing: [],
      cancelling: ['dropping'],
      dropping: [],
    },
    load: id => store.snapshotMove(deps.db, id),
    preempt: m =>
      (m.want === 'cancel' || m.snapshotWant === 'absent') && m.state !== 'clearing' && m.state !== 'dropping'
        ? 'cancelling'
        : undefined,
    phases: {
      preparing: moment => preparing(deps, moment),
      copying: moment => copying(deps, moment),
      clearing: moment => clearing(deps, moment),

      async cancelling({ subject: m, signal }): Promise<Next<'dropping'>> {
        if (m.state === 'dropping') return go('dropping')
        if (m.state !== 'cancelling')
          return wait(0, async tx => {
            await lockGroup(tx, m.groupId)
            await store.giveUpSnapshot(tx, m.id)
          })
        if (m.sourceLost && !m.sourceRemoved) return wait(minutes(1))
        if (!m.sourceRemoved && m.snapshotWant === 'present') await report(deps, m, 'source', { taken: true }, signal)
        return go('dropping', async tx => {
          await lockGroup(tx, m.groupId)
          await store.releaseSnapshot(tx, m.id)
          await pokeDependents(tx, m)
          // The rest of the group moves without a deleted snapshot.
          await settleGroup(tx, m.groupId)
        })
      },

      async dropping({ subject: m, signal }) {
        if (!m.targetRemoved) {
          if (m.targetLost) return wait(minutes(10))
          if (!(await isGone(deps, m, 'target', signal))) return wait(pollMs)
        }
        return done(tx => over(tx, m, m.error === null ? 'cancelled' : 'failed'))
      },
    },
  })

async function preparing(
  deps: MoveDeps,
  { subject: m, signal, enteredAt, now }: Moment,
): Promise<Next<'copying' | 'cancelling'>> {
  if (m.targetLost || m.sourceLost) return fail(m, 'a host was lost')
  if (now.getTime() - enteredAt.getTime() > preparingMs) return fail(m, 'the target did not get ready in time')
  const incoming = { transferId: m.id, sizeBytes: m.sizeBytes, madeBy: m.madeBy ?? '' }
  const { transfer: observed } = await report(deps, m, 'target', { incoming }, signal)
  if (observed?.phase === 'failed') return fail(m, observed.error ?? 'the target cannot receive the snapshot')
  if (observed === undefined || observed.phase === 'preparing') return wait(pollMs)
  const enter = async (tx: Tx) => void (await store.enterSnapshot(tx, m.id, 'copying', observed.uri))
  return go('copying', enter, copyingAlertMs(m))
}

async function copying(deps: MoveDeps, { subject: m, signal, now }: Moment): Promise<Next<'clearing' | 'cancelling'>> {
  if (m.state === 'clearing') return go('clearing')
  // The volumes take longer. The copy is complete, so a loss of the old host no longer matters.
  if (m.state === 'complete') return wait(minutes(1))
  if (m.targetLost || m.sourceLost) return fail(m, 'a host was lost')
  const { transfer: observed } = await report(
    deps,
    m,
    'source',
    { taken: true, outgoing: { transferId: m.id, uri: m.uri ?? '' } },
    signal,
  )
  if (observed?.phase === 'failed') return fail(m, observed.error ?? 'the source could not send the snapshot')
  if (!isMore(m, observed) && now.getTime() - m.progressedAt.getTime() > stuckMs + m.sizeBytes / slowestBytesPerMs)
    return fail(m, 'the copy made no progress')
  return wait(pollMs, async tx => {
    if (observed === undefined) return
    await lockGroup(tx, m.groupId)
    await store.progressSnapshot(tx, m.id, observed)
    if (observed.phase === 'complete') await whole(tx, m)
  })
}

/** Whether the copy progressed since the last observation. */
const isMore = (m: SnapshotMove, observed: Transfer | undefined): boolean =>
  observed !== undefined &&
  (observed.phase === 'complete' || observed.percent > m.percent || observed.transferredBytes !== m.transferredBytes)

/** Marks the copy as complete, which may complete its group or let its migration continue. */
async function whole(tx: Tx, m: SnapshotMove): Promise<void> {
  await store.enterSnapshot(tx, m.id, 'complete')
  if (m.migrationId !== null) await poke(tx, 'migration', m.migrationId)
  await settleGroup(tx, m.groupId)
}

/**
 * Waits until the target confirms the snapshot, which makes it usable there; then has the source remove its leftovers.
 */
async function clearing(deps: MoveDeps, { subject: m, signal }: Moment): Promise<Next<never>> {
  if (!m.landed && m.snapshotWant === 'present') {
    if (m.targetRemoved) return wait(0, tx => lost(tx, m))
    if (m.targetLost) return wait(minutes(1))
    const observed = await report(deps, m, 'target', { arrived: { transferId: m.id } }, signal)
    // The old copy stays until an operator has investigated.
    if (observed.state === 'failed')
      throw new Error(`the new host of snapshot ${m.snapshotName} has lost it: ${observed.error}`)
    if (observed.state !== 'ready' || observed.sha256 !== m.sha256) return wait(pollMs)
    return wait(0, async tx => {
      await store.landSnapshot(tx, m.id)
      await pokeDependents(tx, m)
    })
  }
  if (!m.sourceRemoved) {
    if (m.sourceLost) return wait(minutes(10))
    if (!(await isGone(deps, m, 'source', signal))) return wait(stillUsedMs)
  }
  return done(tx => over(tx, m, 'completed'))
}

async function lost(tx: Tx, m: SnapshotMove): Promise<void> {
  await store.loseSnapshot(tx, m.id, 'its host was removed')
  await pokeDependents(tx, m)
}

/** Cancels the whole group when one of its members fails. */
const fail = (m: SnapshotMove, why: string) =>
  go('cancelling', async (tx: Tx) => {
    await lockGroup(tx, m.groupId)
    await store.cancelSnapshot(tx, m.id, why)
    await cancelGroup(tx, m.groupId, `snapshot ${m.snapshotName}: ${why}`)
    if (m.migrationId !== null) await poke(tx, 'migration', m.migrationId)
  })

async function over(tx: Tx, m: SnapshotMove, state: 'completed' | 'cancelled' | 'failed'): Promise<void> {
  await store.endSnapshot(tx, m.id, state)
  await pokeDependents(tx, m)
}

const pokeDependents = (tx: Tx, m: SnapshotMove) => poke(tx, 'vm-snapshot', m.snapshotId)

type Side = 'source' | 'target'
const hostOf = (m: SnapshotMove, side: Side) => (side === 'source' ? m.sourceHostId : m.targetHostId)
const desiredOf = (m: SnapshotMove): SnapshotPut => ({
  snapshotId: m.snapshotId,
  vmId: m.vmId,
  generation: m.generation,
  want: 'present',
})

/** Returns the host's observation of the snapshot and of this transfer. A permanent refusal counts as failed. */
async function report(
  { bus }: MoveDeps,
  m: SnapshotMove,
  side: Side,
  more: Pick<SnapshotPut, 'incoming' | 'outgoing' | 'arrived' | 'taken'>,
  signal: AbortSignal,
): Promise<Pick<SnapshotObserved, 'state' | 'sha256' | 'error'> & { readonly transfer: Transfer | undefined }> {
  try {
    const observed = await agentClient(bus, hostOf(m, side)).putSnapshot({ ...desiredOf(m), ...more }, signal)
    return { ...observed, transfer: observed.transfer?.transferId === m.id ? observed.transfer : undefined }
  } catch (cause) {
    if (!(cause instanceof BusError) || cause.remoteCode !== 'invalid_snapshot') throw cause
    const transfer = { transferId: m.id, role: side, phase: 'failed', uri: null, error: cause.message } as const
    const nothing = { percent: 0, transferredBytes: 0, totalBytes: 0 }
    return { state: 'creating', sha256: null, error: cause.message, transfer: { ...transfer, ...nothing } }
  }
}

const isGone = async ({ bus }: MoveDeps, m: SnapshotMove, side: Side, signal: AbortSignal): Promise<boolean> =>
  (await agentClient(bus, hostOf(m, side)).putSnapshot({ ...desiredOf(m), want: 'absent' }, signal)).state === 'absent'
