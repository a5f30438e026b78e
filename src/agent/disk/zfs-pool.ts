import { existsSync } from 'node:fs'
import { rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError, run } from '../../lib/exec.ts'
import { StepError } from '../base/step-error.ts'
import { makeEmpty } from './ext4.ts'
import { checkedId, type VolumePool } from './pool.ts'
import { appear, copy, sync } from './whole-file.ts'

export interface ZfsOptions {
  readonly name: string
  /** The mounted dataset in which all volumes are created; it must not contain anything else. */
  readonly dataset: string
  readonly run?: typeof run
}

const busyMs = 10_000
/** A user property (zfs(8)) that marks datasets of removed volumes, which remain until their clones are gone. */
const droppedMark = 'mote:dropped'
const prefix = { volume: 'v', reading: 'r' } as const

/**
 * A pool of ZFS datasets with one raw file each (zfs(8)), so that snapshots and clones share blocks. Uses files instead
 * of zvols, because a zvol's device node appears only some time after the command has ended. Datasets are named
 * `v.<volume>`; `r.` marks a clone for reading a snapshot. A volume exists if its file exists.
 */
export function zfsPool({ name, dataset, ...options }: ZfsOptions): VolumePool {
  const exec = options.run ?? run
  const zfs = (...args: readonly string[]) => exec('zfs', args)
  const pool: Zfs = { name, dataset, zfs }

  return {
    name,
    kind: 'zfs',
    shared: false,
    encrypted: false,
    async create(volumeId, sizeMib, from) {
      const volume = datasetOf(pool, 'volume', volumeId)
      const known = await fileOf(pool, 'volume', volumeId)
      if (known && existsSync(known)) return
      if (from && 'snapshotId' in from) {
        await zfs('clone', await needSnapshot(pool, from.volumeId, from.snapshotId), volume)
        return
      }
      if (!known) await zfs('create', volume)
      const file = (await fileOf(pool, 'volume', volumeId)) ?? ''
      await appear(file, partial => makeEmpty(partial, sizeMib, from?.directory))
    },
    open: volumeId => existing(pool, volumeId),
    close: async () => undefined,
    async remove(volumeId) {
      const volume = datasetOf(pool, 'volume', volumeId)
      const file = await fileOf(pool, 'volume', volumeId)
      if (file) {
        await zfs('set', `${droppedMark}=on`, volume)
        await rm(file, { force: true })
        // `-d` defers: ZFS destroys a snapshot that has clones when its last clone is destroyed.
        for (const snapshot of await namesOf(pool, 'snapshot', volume)) await zfs('destroy', '-d', snapshot)
      }
      await dropUnneeded(pool)
    },
    async snapshot(volumeId, snapshotId) {
      const snapshot = snapshotOf(pool, volumeId, snapshotId)
      const file = await existing(pool, volumeId)
      if (await has(pool, snapshot)) return
      await sync(file)
      await zfs('snapshot', snapshot)
    },
    async removeSnapshot(volumeId, snapshotId) {
      const snapshot = snapshotOf(pool, volumeId, snapshotId)
      if (await has(pool, snapshot)) await zfs('destroy', '-d', snapshot)
    },
    /** Restores by copying the file, because `zfs rollback` would delete later snapshots. */
    async restore(volumeId, snapshotId) {
      const snapshot = await needSnapshot(pool, volumeId, snapshotId)
      const file = await existing(pool, volumeId)
      await withSnapshot(pool, snapshot, volumeId, then => appear(file, partial => copy(then, partial)))
    },
    async grow(volumeId, sizeMib) {
      const file = await existing(pool, volumeId)
      if ((await stat(file)).size >= sizeMib * 2 ** 20) return
      await truncate(file, sizeMib * 2 ** 20)
      await sync(file)
    },
    async blank(volumeId, bytes) {
      const volume = datasetOf(pool, 'volume', volumeId)
      // The dataset still exists if the volume was moved away from this host while a snapshot of it had clones here.
      if (await has(pool, volume)) await zfs('set', `${droppedMark}=off`, volume)
      else await zfs('create', volume)
      const file = (await fileOf(pool, 'volume', volumeId)) ?? ''
      await appear(file, async partial => {
        await writeFile(partial, '', { mode: 0o600, flag: 'wx' })
        await truncate(partial, bytes)
      })
    },
    readSnapshot: async (volumeId, snapshotId, read) =>
      withSnapshot(pool, await needSnapshot(pool, volumeId, snapshotId), volumeId, read),
    /** Counts allocated blocks only. ZFS updates these numbers with a delay of several seconds. */
    async usage(volumeId) {
      await existing(pool, volumeId)
      const bytes = async (what: string) =>
        Number((await property(pool, what, datasetOf(pool, 'volume', volumeId))) ?? 0)
      return { usedBytes: await bytes('usedbydataset'), snapshotBytes: await bytes('usedbysnapshots') }
    },
    async freeBytes() {
      const available = await property(pool, 'available', dataset)
      if (available === undefined || !existsSync((await property(pool, 'mountpoint', dataset)) ?? ''))
        throw new StepError('no_such_pool', `there is no mounted dataset ${dataset}`)
      return Number(available)
    },
  }
}

/** The parent dataset of the volumes, and how to run zfs(8). */
interface Zfs {
  readonly name: string
  readonly dataset: string
  /** Runs zfs(8). */
  readonly zfs: (...args: readonly string[]) => Promise<string>
}

const datasetOf = ({ dataset }: Zfs, kind: keyof typeof prefix, volumeId: string) =>
  `${dataset}/${prefix[kind]}.${checkedId(volumeId)}`

const snapshotOf = (pool: Zfs, volumeId: string, snapshotId: string) =>
  `${datasetOf(pool, 'volume', volumeId)}@${checkedId(snapshotId)}`

async function property({ zfs }: Zfs, what: string, of: string): Promise<string | undefined> {
  return (await zfs('get', '-H', '-p', '-o', 'value', what, of).catch(absent))?.trim()
}

const has = async (pool: Zfs, what: string) => (await property(pool, 'type', what)) !== undefined

async function fileOf(pool: Zfs, kind: keyof typeof prefix, volumeId: string): Promise<string | undefined> {
  const place = await property(pool, 'mountpoint', datasetOf(pool, kind, volumeId))
  return place && join(place, 'disk.raw')
}

/** Returns the volume's file. @throws StepError `volume_missing` */
async function existing(pool: Zfs, volumeId: string): Promise<string> {
  const file = await fileOf(pool, 'volume', volumeId)
  if (file && existsSync(file)) return file
  throw new StepError('volume_missing', `pool ${pool.name} has no volume ${volumeId}`)
}

/**
 * Returns the snapshot's name. A snapshot marked for deferred destruction counts as missing.
 * @throws StepError `snapshot_missing`
 */
async function needSnapshot(pool: Zfs, volumeId: string, snapshotId: string): Promise<string> {
  const snapshot = snapshotOf(pool, volumeId, snapshotId)
  if ((await property(pool, 'defer_destroy', snapshot)) === 'off') return snapshot
  throw new StepError('snapshot_missing', `pool ${pool.name} has no snapshot ${snapshotId}`)
}

async function destroy(pool: Zfs, what: string): Promise<void> {
  if (await has(pool, what)) await patiently(() => pool.zfs('destroy', '-r', what))
}

async function namesOf({ zfs }: Zfs, type: 'filesystem' | 'snapshot', below: string): Promise<string[]> {
  return (await zfs('list', '-H', '-r', '-o', 'name', '-t', type, below)).split('\n').filter(line => line !== '')
}

/** Destroys the datasets of removed volumes that have no snapshots left. */
async function dropUnneeded(pool: Zfs): Promise<void> {
  let went = false
  for (const one of await namesOf(pool, 'filesystem', pool.dataset)) {
    if ((await property(pool, droppedMark, one)) !== 'on' || (await namesOf(pool, 'snapshot', one)).length > 0) continue
    await destroy(pool, one)
    went = true
  }
  // Repeat, because a destroyed dataset may have been the last clone of another removed volume.
  if (went) await dropUnneeded(pool)
}

/** Calls `act` with a file that has the snapshot's content, in a temporary clone. */
async function withSnapshot(
  pool: Zfs,
  snapshot: string,
  volumeId: string,
  act: (file: string) => Promise<void>,
): Promise<void> {
  const clone = datasetOf(pool, 'reading', volumeId)
  await destroy(pool, clone)
  await pool.zfs('clone', snapshot, clone)
  try {
    await act((await fileOf(pool, 'reading', volumeId)) ?? '')
  } finally {
    await destroy(pool, clone)
  }
}

/** Retries while ZFS reports that the dataset is busy, which may last a moment after a file was closed. */
async function patiently(act: () => Promise<unknown>): Promise<void> {
  const deadline = performance.now() + busyMs
  for (;;) {
    try {
      await act()
      return
    } catch (error) {
      if (!(error instanceof CommandError && /busy/.test(error.stderr)) || performance.now() > deadline) throw error
    }
    await sleep(50)
  }
}

/** Maps the error for a missing dataset to undefined, and throws any other error. */
function absent(error: unknown): undefined {
  if (error instanceof CommandError && /does not exist/.test(error.stderr)) return undefined
  throw error
}
