/** Transfers volumes to and from other hosts. */
import { stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import type { VolumePut } from '../../../contract/agent.ts'
import type { Holders } from '../../disk/holders.ts'
import type { VolumePool } from '../../disk/pool.ts'
import {
  awaitWire,
  createTransfers,
  reachWire,
  type Transfers,
  type UnderWay,
} from '../../hypervisor/transfer/transfers.ts'
import { type KeepDeps, keepWanted, receiveVolume, volumeReceiver } from './receive.ts'
import { createSender, protocol } from './send.ts'

export interface MovesDeps extends KeepDeps {
  readonly poolOf: (name: string) => VolumePool
  readonly holders: Pick<Holders, 'of'>
  readonly log: Logger
  /** The address on which this host receives volumes from other hosts. */
  readonly migrationHost: () => string
  /** Records that the volume was received completely. Resolves once the record and the volume's content are durable. */
  readonly keep: (volumeId: string, transferId: string) => Promise<void>
  readonly onChange: (volumeId: string) => void
}

export type Moves = Transfers<VolumePut>

export const createMoves = (deps: MovesDeps): Moves =>
  createTransfers<VolumePut>({
    idOf: ({ volumeId }) => volumeId,
    receive: (desired, received, move) => receive(deps, desired, received, move),
    send: (desired, move) => send(deps, desired, move),
    onChange: deps.onChange,
    log: deps.log,
  })

async function receive(
  { poolOf, mutex, isGone, migrationHost, keep }: MovesDeps,
  { volumeId, pool: poolName, incoming }: VolumePut,
  received: string | undefined,
  move: UnderWay,
): Promise<void> {
  if (!incoming) return
  const { signal, report } = move
  const { transferId, vmId } = incoming
  if (received === transferId) return report({ phase: 'complete', percent: 100 })
  const pool = poolOf(poolName)
  // Remove what an earlier attempt to receive the volume has left.
  await mutex.take(volumeId, async () => {
    signal.throwIfAborted()
    await pool.remove(volumeId)
  })
  if (vmId !== undefined) return report({ phase: 'listening', uri: '' })
  signal.throwIfAborted()
  using use = await awaitWire(migrationHost(), protocol, move)
  const receiver = volumeReceiver(pool, volumeId, signal, keepWanted({ mutex, isGone }, pool, volumeId, signal))
  await receiveVolume(use.wire, receiver, volumeId, async () => {
    signal.throwIfAborted()
    await keep(volumeId, transferId)
  })
  report({ phase: 'complete', percent: 100 })
}

async function send({ poolOf, holders }: MovesDeps, desired: VolumePut, move: UnderWay): Promise<void> {
  const { volumeId, outgoing } = desired
  if (!outgoing) return
  const { signal, report } = move
  const pool = poolOf(desired.pool)
  using use = await reachWire(outgoing.uri, protocol, signal)
  let reported = -1
  const sender = createSender(use.wire, { volumeId, pool, snapshots: outgoing.snapshots }, progress => {
    signal.throwIfAborted()
    if (progress.percent - reported < 1) return
    reported = progress.percent
    report(progress)
  })
  report({ phase: 'copying' })
  await sender.sendSnapshots()
  // Send most of the content while a VM uses the volume. A block device is only sent after the VM has detached it,
  // because a device that is being read could not be closed.
  if (!move.final() && (await stat(await pool.open(volumeId, 0))).isFile()) await sender.sendContent()
  report({ phase: 'copied' })
  while (!move.final() || holders.of(volumeId).length > 0) await move.news()
  await sender.sendContent()
  await sender.settle()
  await pool.close(volumeId)
  signal.throwIfAborted()
  report({ phase: 'complete', percent: 100 })
}
