/**
 * Workflow of the move of one volume. For an attached volume, the migration of its VM commits the switch to the target.
 */
import { BusError } from '../../bus/bus.ts'
import type { Transfer, VolumePut } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, type Step, go, wait } from '../../engine/workflow.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { lockGroup, pokeDependents, settleGroup } from './group.ts'
import { type Side, hostOf, workflowToMove, pokeMigration, pollMs, unstarted } from './move-workflow.ts'
import * as store from './volume-store.ts'
import type { VolumeMove } from './volume-store.ts'

type MoveDeps = Pick<Deps, 'db' | 'bus' | 'vault'>

export const volumeMoveWorkflow = (deps: MoveDeps) =>
  workflowToMove<VolumeMove>({
    kind: 'volume-move',
    noun: 'volume',
    rows: {
      lock,
      enter: store.enter,
      cancel: store.cancel,
      giveUp: store.giveUp,
      release: store.release,
      end: store.end,
    },
    load: id => store.byId(deps.db, id),
    nameOf: m => m.volumeName,
    isDeleted: m => m.volumeWant === 'absent',
    pokeDependents,

    receive(m, signal) {
      const vm = m.how === 'brought' && m.vmId ? { vmId: m.vmId } : {}
      return report(deps, m, 'target', { incoming: { transferId: m.id, ...vm } }, signal)
    },
    isCopied: m => m.how === 'brought' || m.state === 'complete',
    send(m, signal) {
      const outgoing = { transferId: m.id, uri: m.uri ?? '', final: m.final, snapshots: [...m.snapshots] }
      return report(deps, m, 'source', { outgoing }, signal)
    },
    copied,
    keep: (m, signal) => report(deps, m, 'source', {}, signal),
    async arriving(m) {
      const isBeingCreated = m.arrivedBy === m.id && m.volumeState === 'creating'
      return m.volumeWant === 'present' && isBeingCreated ? wait(pollMs) : undefined
    },
    async isGone(m, side, signal) {
      const desired = { ...desiredOf(deps, m, side), want: 'absent' as const }
      return (await agentClient(deps.bus, hostOf(m, side)).putVolume(desired, signal)).state === 'absent'
    },
    removalPollMs: pollMs,
  })

async function lock(tx: Tx, m: VolumeMove): Promise<void> {
  if (m.groupId !== null) await lockGroup(tx, m.groupId)
  await store.lock(tx, [m.volumeId])
}

function copied({ subject: m }: Step<VolumeMove>, observed: Transfer): Next<'clearing'> {
  if (observed.phase === 'complete' && m.migrationId === null && m.groupId === null)
    return go('clearing', tx => arrived(tx, m, observed))
  const state = observed.phase === 'copied' || observed.phase === 'complete' ? observed.phase : undefined
  return wait(pollMs, async tx => {
    if (m.groupId !== null) await lockGroup(tx, m.groupId)
    await store.progress(tx, m.id, observed)
    if (state === undefined || state === m.state) return
    await store.enter(tx, m.id, state)
    await pokeMigration(tx, m)
    if (m.groupId !== null && state === 'complete') await settleGroup(tx, m.groupId)
  })
}

/** Assigns the volume to the target in this transaction. */
async function arrived(tx: Tx, m: VolumeMove, observed: Transfer): Promise<void> {
  await store.lock(tx, [m.volumeId])
  await store.progress(tx, m.id, observed)
  if (!(await store.complete(tx, m.id, m.state))) throw new Error('the move of the volume was canceled in the meantime')
  await pokeDependents(tx, m)
}

/**
 * Sends the desired state to a host, and returns its observation of this transfer. A permanent refusal counts as a
 * failed transfer.
 */
async function report(
  deps: MoveDeps,
  m: VolumeMove,
  side: Side,
  more: Pick<VolumePut, 'incoming' | 'outgoing'>,
  signal: AbortSignal,
): Promise<Transfer> {
  try {
    const desired = { ...desiredOf(deps, m, side), ...more }
    const { transfer } = await agentClient(deps.bus, hostOf(m, side)).putVolume(desired, signal)
    return transfer?.transferId === m.id ? transfer : unstarted(m, side)
  } catch (cause) {
    if (cause instanceof BusError && (cause.remoteCode === 'no_such_pool' || cause.remoteCode === 'invalid_volume'))
      return unstarted(m, side, cause)
    throw cause
  }
}

const desiredOf = ({ vault }: MoveDeps, m: VolumeMove, side: Side): VolumePut => ({
  volumeId: m.volumeId,
  generation: m.generation,
  want: 'present',
  sizeMib: m.sizeMib,
  pool: side === 'source' ? m.sourcePool : m.targetPool,
  ...(m.key ? { key: vault.open('volume.key', m.key) } : {}),
})
