/**
 * The move of one volume: its new host makes room, gets what it holds, and then, in one commit, has it; what is left at the
 * old one goes after that. Of a VM that moves with it the migration decides when (docs/decisions/0051-moves-of-volumes-and-snapshots.md).
 */
import { BusError } from '../../bus/bus.ts'
import type { VolumePut, Transfer } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { copyingAlertMs } from './copy-timeout.ts'
import { cancelGroup, lockGroup, pokeDependents, settleGroup } from './group.ts'
import * as store from './store.ts'
import type { VolumeMove } from './store.ts'

const preparingMs = minutes(2)
/** Changes arrive as messages; this poll covers lost messages. */
const pollMs = seconds(5)

type MoveDeps = Pick<Deps, 'db' | 'bus' | 'vault'>
interface Moment {
  readonly subject: VolumeMove
  readonly signal: AbortSignal
  readonly enteredAt: Date
  readonly now: Date
}

export const volumeMoveWorkflow = (deps: MoveDeps) =>
  workflow<VolumeMove>()({
    kind: 'volume-move',
    edges: {
      preparing: ['copying', 'cancelling'],
      copying: ['clearing', 'cancelling'],
      clearing: [],
      cancelling: ['dropping'],
      dropping: [],
    },
    load: id => store.byId(deps.db, id),
    preempt: m =>
      (m.want === 'cancel' || m.volumeWant === 'absent') && m.state !== 'clearing' && m.state !== 'dropping'
        ? 'cancelling'
        : undefined,
    phases: {
      preparing: moment => preparing(deps, moment),
      copying: moment => copying(deps, moment),
      /** Has the old host remove its leftovers, once the volume is usable on the new one. */
      async clearing({ subject: m, signal }) {
        if (m.volumeWant === 'present' && m.arrivedBy === m.id && m.volumeState === 'creating') return wait(pollMs)
        if (!m.sourceRemoved) {
          if (m.sourceLost) return wait(minutes(10))
          if (!(await isGone(deps, m, 'source', signal))) return wait(pollMs)
        }
        return done(tx => over(tx, m, 'completed'))
      },
      /** Tells the source that the volume stays: after the last pass the source refuses to attach it. */
      async cancelling({ subject: m, signal }): Promise<Next<'dropping'>> {
        if (m.state === 'dropping') return go('dropping')
        if (m.state !== 'cancelling')
          return wait(0, async tx => {
            // An older control plane without groups may have cancelled this move, so cancel the group here.
            if (m.groupId !== null && m.volumeWant === 'present') await cancelGroup(tx, m.groupId)
            await store.lock(tx, [m.volumeId])
            await store.giveUp(tx, m.id)
          })
        if (m.sourceLost && !m.sourceRemoved) return wait(minutes(1))
        if (!m.sourceRemoved && m.volumeWant === 'present') await report(deps, m, 'source', {}, signal)
        return go('dropping', async tx => {
          if (m.groupId !== null) await lockGroup(tx, m.groupId)
          await store.lock(tx, [m.volumeId])
          await store.release(tx, m.id)
          await pokeDependents(tx, m)
          // The rest of the group moves without a deleted volume.
          if (m.groupId !== null) await settleGroup(tx, m.groupId)
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
  const vm = m.how === 'brought' && m.vmId ? { vmId: m.vmId } : {}
  const observed = await report(deps, m, 'target', { incoming: { transferId: m.id, ...vm } }, signal)
  if (observed.phase === 'failed') return fail(m, observed.error ?? 'the target cannot receive the volume')
  if (observed.phase === 'preparing') return wait(pollMs)
  return go(
    'copying',
    async tx => {
      await store.enter(tx, m.id, 'copying', observed.uri)
      await pokeMigration(tx, m)
    },
    copyingAlertMs(m),
  )
}

async function copying(deps: MoveDeps, { subject: m, signal }: Moment): Promise<Next<'clearing' | 'cancelling'>> {
  if (m.state === 'clearing') return go('clearing')
  // Either the VM brings the volume, or the copy is complete; the migration continues.
  if (m.how === 'brought' || m.state === 'complete') return wait(hours(1))
  if (m.targetLost || m.sourceLost) return fail(m, 'a host was lost')
  const { id: transferId, uri, final, snapshots } = m
  const outgoing = { transferId, uri: uri ?? '', final, snapshots: [...snapshots] }
  const observed = await report(deps, m, 'source', { outgoing }, signal)
  if (observed.phase === 'failed') return fail(m, observed.error ?? 'the source could not send the volume')
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

/** Assigns the volume to the target in this commit. */
async function arrived(tx: Tx, m: VolumeMove, observed: Transfer): Promise<void> {
  await store.lock(tx, [m.volumeId])
  await store.progress(tx, m.id, observed)
  if (!(await store.complete(tx, m.id, m.state))) throw new Error('the move was cancelled in the meantime')
  await pokeDependents(tx, m)
}

const fail = (m: VolumeMove, why: string) =>
  go('cancelling', async (tx: Tx) => {
    if (m.groupId !== null) await lockGroup(tx, m.groupId)
    await store.cancel(tx, m.id, why)
    if (m.groupId !== null) await cancelGroup(tx, m.groupId, `volume ${m.volumeName}: ${why}`)
    await pokeMigration(tx, m)
  })

async function over(tx: Tx, m: VolumeMove, state: 'completed' | 'cancelled' | 'failed'): Promise<void> {
  await store.end(tx, m.id, state)
  await pokeDependents(tx, m)
  await pokeMigration(tx, m)
}

async function pokeMigration(tx: Tx, m: VolumeMove): Promise<void> {
  if (m.migrationId !== null) await poke(tx, 'migration', m.migrationId)
}

const nothingYet: Transfer = {
  transferId: '',
  role: 'source',
  phase: 'preparing',
  uri: null,
  percent: 0,
  transferredBytes: 0,
  totalBytes: 0,
  error: null,
}

type Side = 'source' | 'target'
const hostOf = (m: VolumeMove, side: Side) => (side === 'source' ? m.sourceHostId : m.targetHostId)

/** Returns the host's observation of this transfer. A permanent refusal counts as failed. */
async function report(
  deps: MoveDeps,
  m: VolumeMove,
  side: Side,
  more: Pick<VolumePut, 'incoming' | 'outgoing'>,
  signal: AbortSignal,
): Promise<Transfer> {
  try {
    const observed = await agentClient(deps.bus, hostOf(m, side)).putVolume(
      { ...desiredOf(deps, m, side), ...more },
      signal,
    )
    return observed.transfer?.transferId === m.id ? observed.transfer : nothingYet
  } catch (cause) {
    if (cause instanceof BusError && (cause.remoteCode === 'no_such_pool' || cause.remoteCode === 'invalid_volume'))
      return { ...nothingYet, phase: 'failed', error: cause.message }
    throw cause
  }
}

async function isGone(deps: MoveDeps, m: VolumeMove, side: Side, signal: AbortSignal): Promise<boolean> {
  const desired = { ...desiredOf(deps, m, side), want: 'absent' as const }
  return (await agentClient(deps.bus, hostOf(m, side)).putVolume(desired, signal)).state === 'absent'
}

const desiredOf = ({ vault }: MoveDeps, m: VolumeMove, side: Side): VolumePut => ({
  volumeId: m.volumeId,
  generation: m.generation,
  want: 'present',
  sizeMib: m.sizeMib,
  pool: side === 'source' ? m.sourcePool : m.targetPool,
  ...(m.key ? { key: vault.open('volume.key', m.key) } : {}),
})
