/** Volumes that leave for another host or come from one: what the wishes say of it is carried out here, once for each transfer. */
import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import type { VolumePut, VolumeTransfer } from '../../../contract/agent.ts'
import { abortable } from '../../../lib/abortable.ts'
import type { Turns } from '../../../lib/turns.ts'
import type { Holders } from '../../disk/holders.ts'
import type { VolumePool } from '../../disk/pool.ts'
import { listenForVm, openWire } from '../../hypervisor/transfer/wire.ts'
import { StepError } from '../../vm/errors.ts'
import { receiveVolume, volumeReceiver } from './receive.ts'
import { createSender, protocol } from './send.ts'

export interface MovesDeps {
  readonly poolOf: (name: string) => VolumePool
  readonly turns: Turns
  readonly holders: Pick<Holders, 'of'>
  readonly log: Logger
  /** The address where volumes of other hosts arrive. */
  readonly migrationHost: () => string
  /** After it resolves what has come survives a power cut, and so does that it is whole. */
  readonly keep: (volumeId: string, transferId: string) => Promise<void>
  readonly onChange: (volumeId: string) => void
}

export interface Moves {
  /** The wish may be a new one, or a VM has let go. @param received the transfer by which all of it has come */
  follow(wish: VolumePut, received: string | undefined): void
  /** Undefined where nothing of it is under way. */
  observed(volumeId: string): VolumeTransfer | undefined
  /** Aborted as soon as what is under way is not wanted any more; undefined where nothing is. */
  signalOf(volumeId: string): AbortSignal | undefined
  /** Of what is not wanted any more and still at work: when it has ended. Undefined where there is nothing of that kind. */
  ended(volumeId: string): Promise<void> | undefined
  stop(): void
}

interface Move {
  transfer: VolumeTransfer
  final: boolean
  look: PromiseWithResolvers<void>
  readonly abort: AbortController
  readonly over: Promise<void>
}

export function createMoves(deps: MovesDeps): Moves {
  const { log, onChange } = deps
  const moves = new Map<string, Move>()
  // An aborted one may be reading, or waiting for a program, for minutes: nothing else begins with the volume before.
  const ending = new Map<string, Promise<void>>()
  let stopped = false

  const begin = (wish: VolumePut, role: VolumeTransfer['role'], transferId: string, received: string | undefined) => {
    const { volumeId } = wish
    const before = ending.get(volumeId)
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const nothing = { percent: 0, transferredBytes: 0, totalBytes: 0, error: null, uri: null } as const
    const move: Move = {
      ...{ transfer: { transferId, role, phase: 'preparing', ...nothing }, final: false, over },
      ...{ look: Promise.withResolvers(), abort: new AbortController() },
    }
    moves.set(volumeId, move)
    const tell = (change: Partial<VolumeTransfer>) => {
      move.transfer = { ...move.transfer, ...change }
      if (moves.get(volumeId) === move && !move.abort.signal.aborted) onChange(volumeId)
    }
    const carryOut = async () => {
      await before
      move.abort.signal.throwIfAborted()
      if (role === 'target') await receive(deps, wish, received, move.abort.signal, tell)
      else await send(deps, wish, move, tell)
    }
    carryOut()
      .catch((err: unknown) => {
        if (move.abort.signal.aborted) return
        log.warn({ volumeId, transferId, err }, 'the move of a volume has failed')
        tell({ phase: 'failed', error: StepError.of(err).message })
      })
      .finally(resolve)
    return move
  }
  const end = (volumeId: string, { abort, over }: Move) => {
    abort.abort(new Error('nobody wants the volume moved any more'))
    moves.delete(volumeId)
    ending.set(volumeId, over)
    void over.then(() => ending.get(volumeId) === over && ending.delete(volumeId))
  }

  return {
    follow(wish, received) {
      const { volumeId, incoming, outgoing } = wish
      const wanted = wish.want === 'present' && !stopped ? (incoming ?? outgoing) : undefined
      const known = moves.get(volumeId)
      const isKnown = known !== undefined && known.transfer.transferId === wanted?.transferId
      if (known && !isKnown) end(volumeId, known)
      if (!wanted) return
      const move = isKnown ? known : begin(wish, incoming ? 'target' : 'source', wanted.transferId, received)
      move.final ||= outgoing?.final === true
      move.look.resolve()
      move.look = Promise.withResolvers()
    },
    observed: volumeId => moves.get(volumeId)?.transfer,
    signalOf: volumeId => moves.get(volumeId)?.abort.signal,
    ended: volumeId => ending.get(volumeId),
    stop() {
      stopped = true
      for (const { abort } of moves.values()) abort.abort(new Error('the agent ends'))
    },
  }
}

type Tell = (change: Partial<VolumeTransfer>) => void

async function receive(
  { poolOf, turns, migrationHost, keep }: MovesDeps,
  { volumeId, pool: poolName, incoming }: VolumePut,
  received: string | undefined,
  signal: AbortSignal,
  tell: Tell,
): Promise<void> {
  if (!incoming) return
  const { transferId, vmId } = incoming
  if (received === transferId) return tell({ phase: 'complete', percent: 100 })
  const pool = poolOf(poolName)
  // What an earlier try left.
  await turns.take(volumeId, async () => {
    signal.throwIfAborted()
    await pool.remove(volumeId)
  })
  if (vmId !== undefined) return tell({ phase: 'listening', uri: '' })
  signal.throwIfAborted()
  using undo = new DisposableStack()
  const onAbort = (close: () => void) => {
    signal.addEventListener('abort', close, { once: true })
    undo.defer(() => {
      signal.removeEventListener('abort', close)
      close()
    })
  }
  const listener = await listenForVm(migrationHost(), protocol)
  onAbort(listener.close)
  signal.throwIfAborted()
  tell({ phase: 'listening', uri: listener.uri })
  const wire = await listener.wire
  onAbort(wire.close)
  tell({ phase: 'copying' })
  await receiveVolume(wire, volumeReceiver(pool, volumeId, signal), volumeId, async () => {
    signal.throwIfAborted()
    await keep(volumeId, transferId)
  })
  tell({ phase: 'complete', percent: 100 })
}

async function send({ poolOf, holders }: MovesDeps, wish: VolumePut, move: Move, tell: Tell): Promise<void> {
  const { volumeId, outgoing } = wish
  if (!outgoing) return
  const { signal } = move.abort
  const pool = poolOf(wish.pool)
  signal.throwIfAborted()
  const wire = await openWire(outgoing.uri, protocol)
  signal.addEventListener('abort', wire.close, { once: true })
  try {
    let told = -1
    const sender = createSender(wire, { volumeId, pool, snapshots: outgoing.snapshots }, progress => {
      signal.throwIfAborted()
      if (progress.percent - told < 1) return
      told = progress.percent
      tell(progress)
    })
    tell({ phase: 'copying' })
    await sender.sendSnapshots()
    // A device is taken away from the host when its VM lets go of it, which it could not while it is read.
    if (!move.final && (await stat(await pool.open(volumeId, 0))).isFile()) await sender.sendContent()
    tell({ phase: 'copied' })
    while (!move.final || holders.of(volumeId).length > 0) await abortable(move.look.promise, signal)
    await sender.sendContent()
    await sender.settle()
    await pool.close(volumeId)
    signal.throwIfAborted()
    tell({ phase: 'complete', percent: 100 })
  } finally {
    signal.removeEventListener('abort', wire.close)
    wire.close()
  }
}
