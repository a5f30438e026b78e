/** Volumes that leave for another host or come from one. */
import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import type { VolumePut } from '../../../contract/agent.ts'
import type { Holders } from '../../disk/holders.ts'
import type { VolumePool } from '../../disk/pool.ts'
import { awaitWire, createTransfers, reachWire, type Transfers, type UnderWay } from '../../transfers.ts'
import { type KeepDeps, keepWanted, receiveVolume, volumeReceiver } from './receive.ts'
import { createSender, protocol } from './send.ts'

export interface MovesDeps extends KeepDeps {
  readonly poolOf: (name: string) => VolumePool
  readonly holders: Pick<Holders, 'of'>
  readonly log: Logger
  /** The address where volumes of other hosts arrive. */
  readonly migrationHost: () => string
  /** After it resolves what has come survives a power cut, and so does that it is whole. */
  readonly keep: (volumeId: string, transferId: string) => Promise<void>
  readonly onChange: (volumeId: string) => void
}

export type Moves = Transfers<VolumePut>

export const createMoves = (deps: MovesDeps): Moves =>
  createTransfers<VolumePut>({
    idOf: ({ volumeId }) => volumeId,
    receive: (wish, received, move) => receive(deps, wish, received, move),
    send: (wish, move) => send(deps, wish, move),
    onChange: deps.onChange,
    log: deps.log,
  })

async function receive(
  { poolOf, turns, isGone, migrationHost, keep }: MovesDeps,
  { volumeId, pool: poolName, incoming }: VolumePut,
  received: string | undefined,
  move: UnderWay,
): Promise<void> {
  if (!incoming) return
  const { signal, tell } = move
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
  using use = await awaitWire(migrationHost(), protocol, move)
  const receiver = volumeReceiver(pool, volumeId, signal, keepWanted({ turns, isGone }, pool, volumeId, signal))
  await receiveVolume(use.wire, receiver, volumeId, async () => {
    signal.throwIfAborted()
    await keep(volumeId, transferId)
  })
  tell({ phase: 'complete', percent: 100 })
}

async function send({ poolOf, holders }: MovesDeps, wish: VolumePut, move: UnderWay): Promise<void> {
  const { volumeId, outgoing } = wish
  if (!outgoing) return
  const { signal, tell } = move
  const pool = poolOf(wish.pool)
  using use = await reachWire(outgoing.uri, protocol, signal)
  let told = -1
  const sender = createSender(use.wire, { volumeId, pool, snapshots: outgoing.snapshots }, progress => {
    signal.throwIfAborted()
    if (progress.percent - told < 1) return
    told = progress.percent
    tell(progress)
  })
  tell({ phase: 'copying' })
  await sender.sendSnapshots()
  // A device is taken away from the host when its VM lets go of it, which it could not while it is read.
  if (!move.final() && (await stat(await pool.open(volumeId, 0))).isFile()) await sender.sendContent()
  tell({ phase: 'copied' })
  while (!move.final() || holders.of(volumeId).length > 0) await move.news()
  await sender.sendContent()
  await sender.settle()
  await pool.close(volumeId)
  signal.throwIfAborted()
  tell({ phase: 'complete', percent: 100 })
}
