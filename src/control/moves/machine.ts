/**
 * The workflow of a move: the new host makes room and gets a copy, one commit assigns the moved thing to it, and the old host
 * removes what is left (docs/decisions/0051-moves-of-volumes-and-snapshots.md). `Movable` holds what differs between a volume and a
 * snapshot of a VM.
 */
import type { Transfer } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { type Next, type Step, done, go, workflow, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { copyingAlertMs } from './copy-timeout.ts'
import { cancelGroup, lockGroup, settleGroup } from './group.ts'

const preparingMs = minutes(2)
/** Changes arrive as messages; this poll covers lost messages. */
export const pollMs = seconds(5)

/** What a move of any kind knows. */
export interface Move {
  readonly id: string
  /** Everything with this id switches to the target in one commit; null for a single volume. */
  readonly groupId: string | null
  /** The migration of the VM that it moves with; null when its volumes are detached. */
  readonly migrationId: string | null
  readonly sourceHostId: string
  readonly targetHostId: string
  readonly want: 'move' | 'cancel'
  readonly state: string
  readonly uri: string | null
  readonly percent: number
  readonly transferredBytes: number
  /** Upper bound of the bytes in the whole group. */
  readonly movedBytes: number
  readonly error: string | null
  readonly sourceLost: boolean
  readonly sourceRemoved: boolean
  readonly targetLost: boolean
  readonly targetRemoved: boolean
}

export type Side = 'source' | 'target'
export const hostOf = (m: Move, side: Side): string => (side === 'source' ? m.sourceHostId : m.targetHostId)

/** A kind of thing that moves between hosts: its rows, and the requests to its hosts. */
export interface Movable<M extends Move> {
  readonly kind: string
  load(id: string): Promise<M | undefined>
  /** What messages call it. */
  readonly noun: 'volume' | 'snapshot'
  nameOf(m: M): string
  /** Its owner deleted it, so the move ends, and what else moves with it goes on without it. */
  isDeleted(m: M): boolean
  /** Writes to the rows of the move, and of what it moves. */
  readonly rows: {
    /** Locks everything that moves with it, in the order of docs/engine.md. */
    lock(tx: Tx, m: M): Promise<unknown>
    enter(tx: Tx, id: string, state: 'copying', uri: string | null): Promise<unknown>
    cancel(tx: Tx, id: string, error: string | null): Promise<unknown>
    giveUp(tx: Tx, id: string): Promise<unknown>
    release(tx: Tx, id: string): Promise<unknown>
    end(tx: Tx, id: string, state: 'completed' | 'cancelled' | 'failed'): Promise<unknown>
  }
  /** Wakes the workflows that wait for it. */
  pokeDependents(tx: Tx, m: M): Promise<unknown>
  /** Has the target get ready. */
  receive(m: M, signal: AbortSignal): Promise<Transfer>
  /** There is nothing for the source to send: the copy is complete, or something else copies it. */
  isCopied(m: M): boolean
  /** Has the source send it. */
  send(m: M, signal: AbortSignal): Promise<Transfer>
  /** Records what the source has sent. Returns a reason when the copy cannot succeed. */
  copied(step: Step<M>, observed: Transfer): Next<'clearing'> | string
  /** Tells the source that it stays: after the last pass the source refuses to use it. */
  keep(m: M, signal: AbortSignal): Promise<unknown>
  /** Returns undefined once it is usable on the target. */
  arriving(m: M, signal: AbortSignal): Promise<Next<never> | undefined>
  /** Has a host remove what it has of it; true once the host confirms. */
  isGone(m: M, side: Side, signal: AbortSignal): Promise<boolean>
  /** How often the source is asked to remove its leftovers, which VMs there may still use. */
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
  if (m.targetLost || m.sourceLost) return fail(movable, m, 'a host was lost')
  if (now.getTime() - enteredAt.getTime() > preparingMs) return fail(movable, m, 'the target did not get ready in time')
  const observed = await movable.receive(m, signal)
  if (observed.phase === 'failed')
    return fail(movable, m, observed.error ?? `the target cannot receive the ${movable.noun}`)
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
  // The migration or the rest of the group takes longer. A loss of the old host no longer matters.
  if (movable.isCopied(m)) return wait(minutes(1))
  if (m.targetLost || m.sourceLost) return fail(movable, m, 'a host was lost')
  const observed = await movable.send(m, step.signal)
  if (observed.phase === 'failed')
    return fail(movable, m, observed.error ?? `the source could not send the ${movable.noun}`)
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
      // An older control plane without groups may have cancelled this move, so cancel the group here.
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
    // The rest of the group moves without what was deleted.
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

/** Lets the migration of the VM that it moves with continue. */
export async function pokeMigration(tx: Tx, m: Move): Promise<void> {
  if (m.migrationId !== null) await poke(tx, 'migration', m.migrationId)
}

/** The observation of a transfer that the host does not know yet, or refuses for good. */
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
