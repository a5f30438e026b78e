import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { VolumePut, VolumeSnapshotPut } from '../../contract/agent.ts'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'

/** What was done for a volume's wish. */
const VolumeDone = Type.Object({
  created: Type.Boolean(),
  /** `restore.count` of the last restore that was done. */
  restored: Type.Integer(),
  /** The `sizeMib` that it was made, or has grown to. */
  sizeMib: Type.Optional(Type.Integer()),
  /** The transfer from another host by which all of it has come. */
  received: Type.Optional(Type.String()),
  /** The newest wish that could not be made true. */
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

/** The host's notes on its volumes: `<id>/wish.json`, `<id>/done.json`, `<id>/generation`, and the same for snapshots. */
export interface VolumeStore {
  load(): Promise<{ readonly volumes: readonly StoredVolume[]; readonly snapshots: readonly StoredSnapshot[] }>
  /** After it resolves the wish survives a power cut. */
  saveDesired(desired: VolumePut): Promise<void>
  saveDone(volumeId: string, done: VolumeDone): Promise<void>
  saveDesiredSnapshot(desired: VolumeSnapshotPut): Promise<void>
  saveSnapshotDone(snapshotId: string, done: SnapshotDone): Promise<void>
  /** Leaves the generation, so that an old message cannot bring it back. */
  bury(kind: 'volume' | 'snapshot', id: string, generation: number): Promise<void>
  buriedGeneration(kind: 'volume' | 'snapshot', id: string): Promise<number>
  /** Its volume has left this host, and may come back with it. */
  forgetSnapshot(snapshotId: string): Promise<void>
  /** The newest attachment that this host has seen. */
  attachGeneration(volumeId: string): Promise<number>
  /** After it resolves no older attachment is let in, after a power cut too. */
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
    // Without a wish it was never acknowledged; its generation, if there is one, still counts.
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
    return undefined // cut short by a power cut
  }
}
