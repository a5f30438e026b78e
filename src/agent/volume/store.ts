import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { VolumePut, VolumeSnapshotPut } from '../../contract/agent.ts'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'

/** How far this host has brought a volume toward its desired state. */
const VolumeDone = Type.Object({
  created: Type.Boolean(),
  /** Value of `restore.count` when the last restore was completed. */
  restored: Type.Integer(),
  /** Value of `sizeMib` with which the volume was created, or to which it has grown since. */
  sizeMib: Type.Optional(Type.Integer()),
  /** Id of the transfer by which the volume arrived from another host; undefined if this host created it. */
  received: Type.Optional(Type.String()),
  /** The newest generation of the desired state that failed, with its error; null if none failed. */
  failure: Type.Union([Type.Object({ generation: Type.Integer(), error: Type.String() }), Type.Null()]),
})
export type VolumeDone = Static<typeof VolumeDone>

const SnapshotDone = Type.Union([
  Type.Object({ sizeBytes: Type.Integer(), pauseMs: Type.Number() }),
  Type.Object({ error: Type.String(), generation: Type.Integer() }),
])
export type SnapshotDone = Static<typeof SnapshotDone>

export interface StoredVolume {
  readonly desired: VolumePut
  readonly done: VolumeDone
}
export interface StoredSnapshot {
  readonly desired: VolumeSnapshotPut
  readonly done: SnapshotDone | undefined
}

/**
 * Stores this host's records of volumes, in `<id>/wish.json` (desired state), `<id>/done.json` and `<id>/generation`.
 * Snapshots have the same files.
 */
export interface VolumeStore {
  load(): Promise<{ readonly volumes: readonly StoredVolume[]; readonly snapshots: readonly StoredSnapshot[] }>
  /** Stores the desired state of a volume. Resolves once it would survive a power failure. */
  saveDesired(desired: VolumePut): Promise<void>
  saveDone(volumeId: string, done: VolumeDone): Promise<void>
  saveDesiredSnapshot(desired: VolumeSnapshotPut): Promise<void>
  saveSnapshotDone(snapshotId: string, done: SnapshotDone): Promise<void>
  /**
   * Removes the record of a volume or snapshot but keeps its generation, so that a delayed message cannot create it
   * again.
   */
  bury(kind: 'volume' | 'snapshot', id: string, generation: number): Promise<void>
  buriedGeneration(kind: 'volume' | 'snapshot', id: string): Promise<number>
  /**
   * Deletes the record of a snapshot whose volume has left this host. Unlike `bury`, this allows the snapshot to return
   * with the volume.
   */
  forgetSnapshot(snapshotId: string): Promise<void>
  /** Returns the generation of the volume's newest attachment that this host has recorded. */
  attachGeneration(volumeId: string): Promise<number>
  /**
   * Records the generation of an attachment. Resolves once older attachments would be refused even after a power
   * failure.
   */
  saveAttachGeneration(volumeId: string, generation: number): Promise<void>
}

export const nothingDone: VolumeDone = { created: false, restored: 0, failure: null }

export function volumeStore(dataDir: string): VolumeStore {
  const roots = { volume: join(dataDir, 'volume-notes'), snapshot: join(dataDir, 'volume-snapshot-notes') }
  const tombstone = (kind: 'volume' | 'snapshot', id: string) =>
    join(dataDir, 'gone', kind === 'volume' ? `volume.${id}` : `volume-snapshot.${id}`)
  const write = async (kind: 'volume' | 'snapshot', id: string, name: string, data: unknown) => {
    await mkdir(join(roots[kind], id), { recursive: true, mode: 0o700 })
    await writeFileAtomic(join(roots[kind], id, name), JSON.stringify(data))
  }
  return {
    async load() {
      const volumes = await loadAll(roots.volume, VolumePut, VolumeDone)
      const snapshots = await loadAll(roots.snapshot, VolumeSnapshotPut, SnapshotDone)
      return { volumes: volumes.map(({ desired, done }) => ({ desired, done: done ?? nothingDone })), snapshots }
    },
    saveDesired: desired => write('volume', desired.volumeId, 'wish.json', desired),
    saveDone: (volumeId, done) => write('volume', volumeId, 'done.json', done),
    saveDesiredSnapshot: desired => write('snapshot', desired.snapshotId, 'wish.json', desired),
    saveSnapshotDone: (snapshotId, done) => write('snapshot', snapshotId, 'done.json', done),
    async bury(kind, id, generation) {
      await writeFileAtomic(tombstone(kind, id), String(generation))
      await rm(join(roots[kind], id), { recursive: true, force: true })
    },
    buriedGeneration: async (kind, id) => Number((await readIfExists(tombstone(kind, id))) ?? 0),
    forgetSnapshot: snapshotId => rm(join(roots.snapshot, snapshotId), { recursive: true, force: true }),
    attachGeneration: async volumeId => Number((await readIfExists(join(roots.volume, volumeId, 'generation'))) ?? 0),
    async saveAttachGeneration(volumeId, generation) {
      await mkdir(join(roots.volume, volumeId), { recursive: true, mode: 0o700 })
      await writeFileAtomic(join(roots.volume, volumeId, 'generation'), String(generation))
    },
  }
}

async function loadAll<W extends TSchema, D extends TSchema>(root: string, desiredOf: W, doneOf: D) {
  await mkdir(root, { recursive: true, mode: 0o700 })
  const found: { readonly desired: Static<W>; readonly done: Static<D> | undefined }[] = []
  for (const name of await readdir(root)) {
    const desired = parse(desiredOf, await readIfExists(join(root, name, 'wish.json')))
    // A volume without a stored desired state was never acknowledged, so the control plane will request it again. A
    // stored generation remains valid.
    if (desired !== undefined)
      found.push({ desired, done: parse(doneOf, await readIfExists(join(root, name, 'done.json'))) })
  }
  return found
}

function parse<T extends TSchema>(schema: T, text: string | undefined): Static<T> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return Value.Check(schema, value) ? value : undefined
  } catch {
    return undefined // a power failure can truncate the file
  }
}
