import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { run } from '../../lib/exec.ts'
import { StepError } from '../base/step-error.ts'
import { newFileSystem } from './ext4.ts'
import { checkedId, type VolumePool } from './pool.ts'

export type RunProgram = (program: string, args: readonly string[]) => Promise<string>

export interface LvmThinOptions {
  readonly name: string
  readonly group: string
  /** Name of the thin pool in the volume group. */
  readonly thinPool: string
  readonly run?: RunProgram
  readonly devDir?: string
}

// Output of lvs(8) with --reportformat json: sizes in bytes without a unit, percentages as text, an empty text if a
// field does not apply.
const Report = Type.Object({
  report: Type.Array(
    Type.Object({
      lv: Type.Array(Type.Object({ lv_name: Type.String(), lv_size: Type.String(), data_percent: Type.String() })),
    }),
  ),
})
type Lv = Static<typeof Report>['report'][number]['lv'][number]

/** Prefixes of the names of logical volumes. Ids contain no dots, so names are unambiguous. */
const prefix = { volume: 'v', snapshot: 's', making: 'n', restored: 'r' } as const

/**
 * A pool of thin logical volumes (lvmthin(7)): snapshots, clones and restores share blocks but do not depend on each
 * other. Volumes are named `v.<volume>`, snapshots `s.<volume>.<snapshot>`; `n.` marks one that is being created, `r.`
 * one that is complete and about to be renamed to `v.`.
 */
export function lvmThinPool(options: LvmThinOptions): VolumePool {
  const { name, group, thinPool, devDir = '/dev' } = options
  const exec = options.run ?? run
  const lvm: Lvm = { name, group, exec }

  return {
    name,
    kind: 'lvm-thin',
    shared: false,
    encrypted: false,
    async create(volumeId, sizeMib, from) {
      const [volume, making] = [lvName('volume', volumeId), lvName('making', volumeId)]
      const all = await settled(lvm, volumeId)
      if (has(all, volume)) return
      if (has(all, making)) await removeLv(lvm, making)
      if (from && 'snapshotId' in from) await fork(lvm, await needSnapshot(lvm, from.volumeId, from.snapshotId), making)
      else {
        const thin = ['--type', 'thin', '--virtualsize', `${sizeMib}m`, '--thinpool', thinPool]
        await exec('lvcreate', ['--yes', '--quiet', ...thin, '--name', making, group])
        await exec('mke2fs', await newFileSystem(`${devDir}/${group}/${making}`, from?.directory))
      }
      await rename(lvm, making, volume)
    },
    async open(volumeId) {
      const volume = await existing(lvm, volumeId)
      await exec('lvchange', ['--quiet', '--activate', 'y', '--ignoreactivationskip', `${group}/${volume}`])
      return `${devDir}/${group}/${volume}`
    },
    async close(volumeId) {
      const volume = lvName('volume', volumeId)
      if (has(await list(lvm), volume)) await exec('lvchange', ['--quiet', '--activate', 'n', `${group}/${volume}`])
    },
    async remove(volumeId) {
      const own = new Set([lvName('volume', volumeId), lvName('making', volumeId), lvName('restored', volumeId)])
      const ofSnapshots = `${lvName('snapshot', volumeId)}.`
      for (const { lv_name } of await list(lvm))
        if (own.has(lv_name) || lv_name.startsWith(ofSnapshots)) await removeLv(lvm, lv_name)
    },
    async snapshot(volumeId, snapshotId) {
      const snapshot = lvName('snapshot', volumeId, snapshotId)
      const volume = await existing(lvm, volumeId)
      if (!has(await list(lvm), snapshot)) await fork(lvm, volume, snapshot)
    },
    async removeSnapshot(volumeId, snapshotId) {
      const snapshot = lvName('snapshot', volumeId, snapshotId)
      if (has(await list(lvm), snapshot)) await removeLv(lvm, snapshot)
    },
    async restore(volumeId, snapshotId) {
      const [volume, restored] = [lvName('volume', volumeId), lvName('restored', volumeId)]
      const snapshot = await needSnapshot(lvm, volumeId, snapshotId)
      const all = await settled(lvm, volumeId)
      if (has(all, restored)) await removeLv(lvm, restored)
      await fork(lvm, snapshot, restored)
      if (has(all, volume)) await removeLv(lvm, volume)
      await rename(lvm, restored, volume)
    },
    async grow(volumeId, sizeMib) {
      const volume = await existing(lvm, volumeId)
      const now = (await list(lvm)).find(one => one.lv_name === volume)
      if (Number(now?.lv_size) < sizeMib * 2 ** 20)
        await exec('lvextend', ['--quiet', '--size', `${sizeMib}m`, `${group}/${volume}`])
    },
    async blank(volumeId, bytes) {
      const thin = ['--type', 'thin', '--virtualsize', `${Math.ceil(bytes / 2 ** 20)}m`, '--thinpool', thinPool]
      await exec('lvcreate', ['--yes', '--quiet', ...thin, '--name', lvName('volume', volumeId), group])
    },
    async readSnapshot(volumeId, snapshotId, read) {
      const snapshot = `${group}/${await needSnapshot(lvm, volumeId, snapshotId)}`
      await exec('lvchange', ['--quiet', '--activate', 'y', '--ignoreactivationskip', snapshot])
      try {
        await read(`${devDir}/${snapshot}`)
      } finally {
        await exec('lvchange', ['--quiet', '--activate', 'n', snapshot])
      }
    },
    async usage(volumeId) {
      const volume = await existing(lvm, volumeId)
      const ofSnapshots = `${lvName('snapshot', volumeId)}.`
      const all = await list(lvm)
      const sum = (wanted: (lv: string) => boolean) =>
        all.filter(one => wanted(one.lv_name)).reduce((total, one) => total + bytes(one), 0)
      return { usedBytes: sum(lv => lv === volume), snapshotBytes: sum(lv => lv.startsWith(ofSnapshots)) }
    },
    async freeBytes() {
      const pool = (await list(lvm)).find(one => one.lv_name === thinPool)
      if (!pool) throw new StepError('no_such_pool', `volume group ${group} has no thin pool ${thinPool}`)
      return Number(pool.lv_size) - bytes(pool)
    },
  }
}

/** A volume group, and how to run LVM's programs. */
interface Lvm {
  readonly name: string
  readonly group: string
  readonly exec: RunProgram
}

const lvName = (kind: keyof typeof prefix, ...ids: readonly string[]) => [prefix[kind], ...ids.map(checkedId)].join('.')

async function list({ exec, group }: Lvm): Promise<readonly Lv[]> {
  const format = ['--units', 'b', '--nosuffix', '--reportformat', 'json', '--options', 'lv_name,lv_size,data_percent']
  return Value.Parse(Report, JSON.parse(await exec('lvs', [...format, group]))).report.flatMap(one => one.lv)
}

const has = (all: readonly Lv[], lv: string) => all.some(one => one.lv_name === lv)

const removeLv = ({ exec, group }: Lvm, lv: string) => exec('lvremove', ['--yes', '--quiet', `${group}/${lv}`])

const rename = ({ exec, group }: Lvm, from: string, to: string) => exec('lvrename', ['--quiet', group, from, to])

const fork = ({ exec, group }: Lvm, from: string, to: string) =>
  exec('lvcreate', ['--yes', '--quiet', '--snapshot', '--setactivationskip', 'n', '--name', to, `${group}/${from}`])

/**
 * Lists the volume and its snapshots, after finishing a restore that a crash interrupted between removing the old
 * volume and renaming the new one.
 */
async function settled(lvm: Lvm, volumeId: string): Promise<readonly Lv[]> {
  const all = await list(lvm)
  const [volume, restored] = [lvName('volume', volumeId), lvName('restored', volumeId)]
  if (has(all, volume) || !has(all, restored)) return all
  await rename(lvm, restored, volume)
  return list(lvm)
}

/** Returns the volume's logical volume. @throws StepError `volume_missing` */
async function existing(lvm: Lvm, volumeId: string): Promise<string> {
  const volume = lvName('volume', volumeId)
  if (has(await settled(lvm, volumeId), volume)) return volume
  throw new StepError('volume_missing', `pool ${lvm.name} has no volume ${volumeId}`)
}

/** Returns the snapshot's logical volume. @throws StepError `snapshot_missing` */
async function needSnapshot(lvm: Lvm, volumeId: string, snapshotId: string): Promise<string> {
  const snapshot = lvName('snapshot', volumeId, snapshotId)
  if (has(await list(lvm), snapshot)) return snapshot
  throw new StepError('snapshot_missing', `pool ${lvm.name} has no snapshot ${snapshotId}`)
}

const bytes = ({ lv_size, data_percent }: Lv) => Math.round((Number(lv_size) * Number(data_percent || 0)) / 100)
