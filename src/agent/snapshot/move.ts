/**
 * Transfers a VM snapshot between hosts: its files and its description. Volume contents are transferred with the
 * volumes.
 */
import type { StatsFs } from 'node:fs'
import { readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { Value } from 'typebox/value'
import type { SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotMade } from '../hypervisor/driver.ts'
import { fileReceiver } from '../hypervisor/transfer/files.ts'
import type { Wire } from '../hypervisor/transfer/wire.ts'
import { awaitWire, reachWire, type UnderWay } from '../hypervisor/transfer/transfers.ts'
import { StepError } from '../base/step-error.ts'
import { chunksOf, dataIn, hashOf } from '../volume/move/content.ts'
import { digestOf, type SnapshotStore, Taken } from './store.ts'

/** Protocol version in the message `hello`; source and target must have the same one. */
const protocol = 'mote snapshot 1'
/** Disk space that a transfer leaves free on the target, because other data grows meanwhile. */
const [spareBytes, spareShare] = [64 << 20, 0.05]
const fileName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

export interface ReceiveDeps {
  readonly store: Pick<SnapshotStore, 'make' | 'root'>
  /**
   * Returns the values of `madeBy` (VMM and CPU) of this host's own snapshots. The host only accepts snapshots with one
   * of these values.
   */
  readonly kinds: () => Promise<readonly string[]>
  readonly room: Room
  /** Provides the base that the snapshot's guest has mounted. @throws StepError `snapshot_base_missing` */
  readonly makeBase: (made: SnapshotMade, signal: AbortSignal) => Promise<void>
  /** The address on which this host receives snapshots from other hosts. */
  readonly migrationHost: () => string
  /** Records durably that the snapshot is complete. */
  readonly keep: (taken: Taken) => Promise<void>
}

/**
 * Receives a snapshot from another host. The snapshot is complete if its files, read back from disk, have the expected
 * hash.
 * @throws StepError `snapshot_mismatch` (made by another VMM or CPU), `no_space`, `snapshot_damaged`
 */
export async function receiveSnapshot(
  { store, kinds, room, makeBase, migrationHost, keep }: ReceiveDeps,
  { snapshotId, incoming }: SnapshotPut,
  move: UnderWay,
): Promise<void> {
  if (!incoming) return
  const { signal, report } = move
  const here = await kinds()
  if (!here.includes(incoming.madeBy))
    throw new StepError(
      'snapshot_mismatch',
      `the snapshot was made by ${incoming.madeBy}, this host has ${here.join(' and ')}`,
    )
  using reserved = await room.reserve(store.root, incoming.sizeBytes)
  using use = await awaitWire(migrationHost(), protocol, move)
  const { wire } = use
  try {
    const taken = await store.make(snapshotId, async dir => {
      const come = await takeFiles(wire, dir, reserved.took)
      // The base is fetched while the source still has the snapshot, because the transfer must fail if the base is
      // unavailable.
      await makeBase(come.made, signal)
      signal.throwIfAborted()
      return come
    })
    signal.throwIfAborted()
    await keep({ ...taken, received: incoming.transferId })
    await wire.say({ say: 'loaded' })
  } catch (error) {
    await wire.say({ say: 'failed', reason: StepError.of(error).message }).catch(() => undefined)
    throw error
  }
  report({ phase: 'complete', percent: 100 })
}

/** Shares the free disk space between all transfers to this host. */
export interface Room {
  /** Reserves disk space until disposed. @throws StepError `no_space` */
  reserve(dir: string, sizeBytes: number): Promise<Reserved>
}
export interface Reserved extends Disposable {
  /** Reduces the reservation by the number of bytes that have been written to disk. */
  took(bytes: number): void
}

type Space = (dir: string) => Promise<Pick<StatsFs, 'bavail' | 'blocks' | 'bsize'>>

export function createRoom(space: Space = statfs): Room {
  const coming = new Map<symbol, number>()
  return {
    async reserve(dir, sizeBytes) {
      const { bavail, blocks, bsize } = await space(dir)
      const mib = (bytes: number) => Math.max(0, Math.floor(bytes / 2 ** 20))
      const others = [...coming.values()].reduce((sum, bytes) => sum + bytes, 0)
      const free = bavail * bsize - others - Math.max(spareBytes, spareShare * blocks * bsize)
      if (free < sizeBytes)
        throw new StepError(
          'no_space',
          `the snapshot takes ${Math.ceil(sizeBytes / 2 ** 20)} MiB, and this host has ${mib(free)} MiB free`,
        )
      const id = Symbol('snapshot')
      coming.set(id, sizeBytes)
      return {
        took: bytes => void coming.set(id, Math.max(0, (coming.get(id) ?? 0) - bytes)),
        [Symbol.dispose]: () => void coming.delete(id),
      }
    },
  }
}

/** Receives the files into an empty directory, and verifies their hash. */
async function takeFiles(wire: Wire, dir: string, took: Reserved['took']): Promise<Taken> {
  const { names, taken } = await wire.expect('snapshot')
  if (!names.every(name => fileName.test(name)) || !Value.Check(Taken, taken))
    throw new Error('the source host sent an invalid description of the snapshot')
  const files = fileReceiver(Object.fromEntries(names.map(name => [name, join(dir, name)])))
  try {
    for (;;) {
      const frame = await wire.next()
      if (frame?.kind === 'data') {
        await files.data(frame.offset, frame.data)
        took(frame.data.length)
      } else if (frame?.kind === 'message' && frame.message.say === 'file')
        await files.take(frame.message.name, frame.message.size)
      else if (frame?.kind === 'message' && frame.message.say === 'complete') break
      else throw new Error('the source host ended the transfer of the snapshot before all data was sent')
    }
  } finally {
    await files.close()
  }
  const arrived = await digestOf(dir)
  if (arrived.sha256 !== taken.sha256)
    throw new StepError(
      'snapshot_damaged',
      'the snapshot was damaged during the transfer: the hash of the received files differs',
    )
  return { made: taken.made, ...arrived }
}

/**
 * Sends the snapshot.
 * @throws StepError with the reason for which the target refused it, Error if the connection closes
 */
export async function sendSnapshot(
  dir: string,
  taken: Taken,
  { outgoing }: SnapshotPut,
  { signal, report }: UnderWay,
): Promise<void> {
  if (!outgoing) return
  using use = await reachWire(outgoing.uri, protocol, signal)
  const { wire } = use
  const names = (await readdir(dir)).sort()
  const sizes = await Promise.all(names.map(async name => (await stat(join(dir, name))).size))
  const totalBytes = sizes.reduce((sum, size) => sum + size, 0)
  const { made, sha256, sizeBytes } = taken
  await wire.say({ say: 'snapshot', names, taken: { made, sha256, sizeBytes } })
  report({ phase: 'copying', totalBytes })
  let [transferredBytes, doneBytes, reported] = [0, 0, 0]
  for (const [n, name] of names.entries()) {
    const path = join(dir, name)
    await wire.say({ say: 'file', name, size: sizes[n] ?? 0 })
    for await (const { offset, data } of chunksOf(path, await dataIn(path))) {
      signal.throwIfAborted()
      if (hashOf(data) !== undefined) {
        await wire.data(offset, data)
        transferredBytes += data.length
      }
      const percent = Math.min(99, Math.floor((100 * (doneBytes + offset)) / Math.max(1, totalBytes)))
      if (percent > reported) report({ percent, transferredBytes })
      reported = Math.max(reported, percent)
    }
    doneBytes += sizes[n] ?? 0
  }
  await wire.say({ say: 'complete' })
  await wire.expect('loaded')
  report({ phase: 'complete', percent: 100, transferredBytes })
}
