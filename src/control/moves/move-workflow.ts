/**
 * The workflow of a move, for volumes and VM snapshots: the target makes room and receives a copy; one commit assigns
 * the volume or snapshot to the target; then the source removes its copy
 * (docs/decisions/0051-moves-of-volumes-and-snapshots.md). What differs between the two kinds is in `Movable`.
 */
import type { Transfer } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { type Next, type Step, done, go, workflow, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { copyingAlertMs } from './copy-timeout.ts'
import { cancelGroup, lockGroup, settleGroup } from './group.ts'

const preparingMs = minutes(2)
/** Poll interval. Polls only make up for lost messages, because hosts report changes. */
export const pollMs = seconds(5)

/** The fields that moves of both kinds have. */
export interface Move {
  readonly id: string
  /** Id of the move group, which switches to the target in one commit; null for a single volume. */
  readonly groupId: string | null
  /** The migration of the VM with which the volume or snapshot moves; null when the volumes are detached. */
  readonly migrationId: string | null
  readonly sourceHostId: string
  readonly targetHostId: string
  readonly want: 'move' | 'cancel'
  readonly state: string
  readonly uri: string | null
  readonly percent: number
  readonly transferredBytes: number
  /** Upper bound of the bytes in the whole move group, from which time limits are computed. */
  readonly movedBytes: number
  readonly error: string | null
  readonly sourceLost: boolean
  readonly sourceRemoved: boolean
  readonly targetLost: boolean
  readonly targetRemoved: boolean
}

export type Side = 'source' | 'target'
export const hostOf = (m: Move, side: Side): string => (side === 'source' ? m.sourceHostId : m.targetHostId)

/**
 * What the workflow needs for each kind of thing that it moves (volumes, VM snapshots): access to the rows, and
 * requests to the hosts.
 */
export interface Movable<M extends Move> {
  readonly kind: string
  load(id: string): Promise<M | undefined>
  /** What error messages call the thing that moves. */
  readonly noun: 'volume' | 'snapshot'
  nameOf(m: M): string
  /**
   * Whether the owner has deleted the volume or snapshot. Its move is then cancelled, and the rest of the group moves
   * without it.
   */
  isDeleted(m: M): boolean
  /** Writes to the rows of the move, and of the volume or snapshot. */
  readonly rows: {
    /** Locks everything that moves together, in the lock order of docs/engine.md. */
    lock(tx: Tx, m: M): Promise<unknown>
    enter(tx: Tx, id: string, state: 'copying', uri: string | null): Promise<unknown>
    cancel(tx: Tx, id: string, error: string | null): Promise<unknown>
    giveUp(tx: Tx, id: string): Promise<unknown>
    release(tx: Tx, id: string): Promise<unknown>
    end(tx: Tx, id: string, state: 'completed' | 'cancelled' | 'failed'): Promise<unknown>
  }
  /** Pokes the workflows that wait for the end of the move. */
  pokeDependents(tx: Tx, m: M): Promise<unknown>
  /** Has the target prepare to receive the copy. */
  receive(m: M, signal: AbortSignal): Promise<Transfer>
  /** Whether the source has nothing (more) to send: the copy is complete, or the VMM copies the volume. */
  isCopied(m: M): boolean
  /** Has the source send the copy. Returns the progress. */
  send(m: M, signal: AbortSignal): Promise<Transfer>
  /** Records the progress of the copy. Returns the reason if the copy cannot succeed. */
  copied(step: Step<M>, observed: Transfer): Next<'clearing'> | string
  /**
   * Notifies the source that the move was cancelled. Otherwise, the source refuses to use the volume after its last
   * pass of the copy.
   */
  keep(m: M, signal: AbortSignal): Promise<unknown>
  /** Waits until the volume or snapshot is usable on the target, then returns undefined. */
  arriving(m: M, signal: AbortSignal): Promise<Next<never> | undefined>
  /** Has a host remove its copy. Returns true once the host confirms. */
  isGone(m: M, side: Side, signal: AbortSignal): Promise<boolean>
  /** Interval between requests to the source to remove its copy, which VMs on the source may still use. */
  readonly removalPollMs: number
}

export const workflowToMove = <M extends Move>(movable: Movable<M>) =>
  workflow<M>()({
    kind: movable.kind,
    edges: {
      preparing: ['copying', 'cancelling'],
      copying: ['clearing', 'cancelling'],
      clearing: [],
      cancelling: ['dropping'],
      dropping: [],
    },
    load: id => movable.load(id),
    preempt: m =>
      (m.want === 'cancel' || movable.isDeleted(m)) && m.state !== 'clearing' && m.state !== 'dropping'
        ? 'cancelling'
        : undefined,
    phases: {
      preparing: step => preparing(movable, step),
      copying: step => copying(movable, step),

      async clearing({ subject: m, signal }) {
        const arriving = await movable.arriving(m, signal)
        if (arriving) return arriving
        if (!m.sourceRemoved) {
          if (m.sourceLost) return wait(minutes(10))
          if (!(await movable.isGone(m, 'source', signal))) return wait(movable.removalPollMs)
        }
        return done(tx => over(movable, tx, m, 'completed'))
      },

      cancelling: step => cancelling(movable, step),

      async dropping({ subject: m, signal }) {
        if (!m.targetRemoved) {
          if (m.targetLost) return wait(minutes(10))
          if (!(await movable.isGone(m, 'target', signal))) return wait(pollMs)
        }
        return done(tx => over(movable, tx, m, m.error === null ? 'cancelled' : 'failed'))
      },
    },
  })

async function preparing<M extends Move>(
  movable: Movable<M>,
  { subject: m, signal, enteredAt, now }: Step<M>,
): Promise<Next<'copying' | 'cancelling'>> {
  if (m.targetLost || m.sourceLost) return fail(movable, m, 'the source or target host was lost')
  if (now.getTime() - enteredAt.getTime() > preparingMs)
    return fail(movable, m, `the target host was not ready to receive the ${movable.noun} in time`)
  const observed = await movable.receive(m, signal)
  if (observed.phase === 'failed')
    return fail(movable, m, observed.error ?? `the target host cannot receive the ${movable.noun}`)
  if (observed.phase === 'preparing') return wait(pollMs)
  const enter = async (tx: Tx) => {
    await movable.rows.enter(tx, m.id, 'copying', observed.uri)
    await pokeMigration(tx, m)
  }
  return go('copying', enter, copyingAlertMs(m))
}

async function copying<M extends Move>(movable: Movable<M>, step: Step<M>): Promise<Next<'clearing' | 'cancelling'>> {
  const m = step.subject
  if (m.state === 'clearing') return go('clearing')
  // The copy is complete. Only the migration or the rest of the group is missing, so losing the source does no harm any
  // more.
  if (movable.isCopied(m)) return wait(minutes(1))
  if (m.targetLost || m.sourceLost) return fail(movable, m, 'the source or target host was lost')
  const observed = await movable.send(m, step.signal)
  if (observed.phase === 'failed')
    return fail(movable, m, observed.error ?? `the source host could not send the ${movable.noun}`)
  const next = movable.copied(step, observed)
  return typeof next === 'string' ? fail(movable, m, next) : next
}

async function cancelling<M extends Move>(
  movable: Movable<M>,
  { subject: m, signal }: Step<M>,
): Promise<Next<'dropping'>> {
  if (m.state === 'dropping') return go('dropping')
  if (m.state !== 'cancelling')
    return wait(0, async tx => {
      // Cancel the whole group here, too: an older control plane does not know groups and may have cancelled only this
      // move.
      if (m.groupId !== null && !movable.isDeleted(m)) await cancelGroup(tx, m.groupId)
      await movable.rows.lock(tx, m)
      await movable.rows.giveUp(tx, m.id)
    })
  if (m.sourceLost && !m.sourceRemoved) return wait(minutes(1))
  if (!m.sourceRemoved && !movable.isDeleted(m)) await movable.keep(m, signal)
  return go('dropping', async tx => {
    await movable.rows.lock(tx, m)
    await movable.rows.release(tx, m.id)
    await movable.pokeDependents(tx, m)
    // The rest of the group moves without the member that was deleted.
    if (m.groupId !== null) await settleGroup(tx, m.groupId)
  })
}

/** Cancels the move with its whole group. */
const fail = <M extends Move>(movable: Movable<M>, m: M, why: string) =>
  go('cancelling', async (tx: Tx) => {
    if (m.groupId !== null) await lockGroup(tx, m.groupId)
    await movable.rows.cancel(tx, m.id, why)
    if (m.groupId !== null) await cancelGroup(tx, m.groupId, `${movable.noun} ${movable.nameOf(m)}: ${why}`)
    await pokeMigration(tx, m)
  })

async function over<M extends Move>(
  movable: Movable<M>,
  tx: Tx,
  m: M,
  state: 'completed' | 'cancelled' | 'failed',
): Promise<void> {
  await movable.rows.end(tx, m.id, state)
  await movable.pokeDependents(tx, m)
  await pokeMigration(tx, m)
}

/** Pokes the migration of the VM, if the move belongs to one. */
export async function pokeMigration(tx: Tx, m: Move): Promise<void> {
  if (m.migrationId !== null) await poke(tx, 'migration', m.migrationId)
}

/**
 * Returns the observation that stands for a transfer that the host has not started, or that it refuses permanently
 * (`refusal`).
 */
export const unstarted = (m: Move, role: Side, refusal: Error | null = null): Transfer => ({
  transferId: m.id,
  role,
  phase: refusal ? 'failed' : 'preparing',
  uri: null,
  percent: 0,
  transferredBytes: 0,
  totalBytes: 0,
  error: refusal?.message ?? null,
})
