/** Transfers volumes and snapshots to and from other hosts, once for each transfer id in the desired states. */
import type { Logger } from 'pino'
import type { Transfer } from '../../../contract/agent.ts'
import { abortable } from '../../../lib/abortable.ts'
import { listenForVm, openWire, type Wire } from './wire.ts'
import { StepError } from '../../base/step-error.ts'

/** The part of an object's desired state that concerns its transfer. */
export interface Movable {
  readonly want: 'present' | 'absent'
  readonly incoming?: { readonly transferId: string }
  readonly outgoing?: { readonly transferId: string; readonly final?: boolean }
}

export type Report = (change: Partial<Transfer>) => void

/** A running transfer. */
export interface UnderWay {
  readonly signal: AbortSignal
  /** True once the source no longer writes to the object. */
  final(): boolean
  /** Resolves when the object's desired state may have changed. @throws the signal's reason */
  news(): Promise<void>
  readonly report: Report
}

export interface TransfersDeps<W extends Movable> {
  readonly idOf: (desired: W) => string
  /** @param received id of the transfer that has already delivered everything, if there was one */
  readonly receive: (desired: W, received: string | undefined, move: UnderWay) => Promise<void>
  readonly send: (desired: W, move: UnderWay) => Promise<void>
  readonly onChange: (id: string) => void
  readonly log: Logger
}

export interface Transfers<W extends Movable> {
  /** Starts, continues or cancels the transfer that the object's desired state requests. Call it after each change. */
  follow(desired: W, received: string | undefined): void
  /** Returns the state of the object's transfer; undefined if none is in progress. */
  observed(id: string): Transfer | undefined
  /** Returns a signal that aborts when the object's running transfer is canceled; undefined without such a transfer. */
  signalOf(id: string): AbortSignal | undefined
  /** Resolves when the object's canceled transfer has ended; undefined if it has none. */
  ended(id: string): Promise<void> | undefined
  stop(): void
}

interface Move {
  transfer: Transfer
  final: boolean
  look: PromiseWithResolvers<void>
  readonly abort: AbortController
  readonly over: Promise<void>
}

export function createTransfers<W extends Movable>(deps: TransfersDeps<W>): Transfers<W> {
  const { log, onChange, idOf } = deps
  const moves = new Map<string, Move>()
  // Canceled transfers that have not ended. Such a transfer may still read, or wait for a program, for minutes. The
  // next transfer of the same object waits for its end.
  const ending = new Map<string, Promise<void>>()
  let stopped = false

  const begin = (desired: W, role: Transfer['role'], transferId: string, received: string | undefined) => {
    const id = idOf(desired)
    const before = ending.get(id)
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const nothing = { percent: 0, transferredBytes: 0, totalBytes: 0, error: null, uri: null } as const
    const move: Move = {
      transfer: { transferId, role, phase: 'preparing', ...nothing },
      final: false,
      over,
      look: Promise.withResolvers(),
      abort: new AbortController(),
    }
    moves.set(id, move)
    const { signal } = move.abort
    const report = (change: Partial<Transfer>) => {
      move.transfer = { ...move.transfer, ...change }
      if (moves.get(id) === move && !signal.aborted) onChange(id)
    }
    const underWay: UnderWay = {
      signal,
      report,
      final: () => move.final,
      news: () => abortable(move.look.promise, signal),
    }
    const carryOut = async () => {
      await before
      signal.throwIfAborted()
      if (role === 'target') await deps.receive(desired, received, underWay)
      else await deps.send(desired, underWay)
    }
    carryOut()
      .catch((err: unknown) => {
        if (signal.aborted) return
        log.warn({ id, transferId, err }, 'a transfer to or from another host has failed')
        report({ phase: 'failed', error: StepError.of(err).message })
      })
      .finally(resolve)
    return move
  }
  const end = (id: string, { abort, over }: Move) => {
    abort.abort(new Error('the transfer was canceled'))
    moves.delete(id)
    ending.set(id, over)
    void over.then(() => ending.get(id) === over && ending.delete(id))
  }

  return {
    follow(desired, received) {
      const id = idOf(desired)
      const { incoming, outgoing } = desired
      const wanted = desired.want === 'present' && !stopped ? (incoming ?? outgoing) : undefined
      const known = moves.get(id)
      const isKnown = known !== undefined && known.transfer.transferId === wanted?.transferId
      if (known && !isKnown) end(id, known)
      if (!wanted) return
      const move = isKnown ? known : begin(desired, incoming ? 'target' : 'source', wanted.transferId, received)
      move.final ||= outgoing?.final === true
      move.look.resolve()
      move.look = Promise.withResolvers()
    },
    observed: id => moves.get(id)?.transfer,
    signalOf: id => moves.get(id)?.abort.signal,
    ended: id => ending.get(id),
    stop() {
      stopped = true
      for (const { abort } of moves.values()) abort.abort(new Error('the agent stops'))
    },
  }
}

/** Listens for one connection from another host. The transfer's abort closes the listener and the connection. */
export async function awaitWire(host: string, protocol: string, { signal, report }: UnderWay): Promise<WireInUse> {
  const undo = new DisposableStack()
  const onAbort = (close: () => void) => {
    signal.addEventListener('abort', close, { once: true })
    undo.defer(() => {
      signal.removeEventListener('abort', close)
      close()
    })
  }
  try {
    const listener = await listenForVm(host, protocol)
    onAbort(listener.close)
    signal.throwIfAborted()
    report({ phase: 'listening', uri: listener.uri })
    const wire = await listener.wire
    onAbort(wire.close)
    report({ phase: 'copying' })
    return { wire, [Symbol.dispose]: () => undo.dispose() }
  } catch (error) {
    undo.dispose()
    throw error
  }
}

export interface WireInUse extends Disposable {
  readonly wire: Wire
}

/** Connects to the host that listens at `uri`. The connection is closed when the transfer is aborted. */
export async function reachWire(uri: string, protocol: string, signal: AbortSignal): Promise<WireInUse> {
  signal.throwIfAborted()
  const wire = await openWire(uri, protocol)
  // An aborted signal emits no event, so a listener added after an abort is never called.
  if (signal.aborted) wire.close()
  signal.throwIfAborted()
  signal.addEventListener('abort', wire.close, { once: true })
  return {
    wire,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', wire.close)
      wire.close()
    },
  }
}
