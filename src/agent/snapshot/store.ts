import { createHash } from 'node:crypto'
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { SnapshotDisk, SnapshotPut } from '../../contract/agent.ts'
import { readIfExists, sealFiles, writeFileAtomic } from '../../lib/files.ts'
import type { SnapshotMade } from '../hypervisor/driver.ts'
import { digestSparse } from '../disk/extents.ts'

const Made = Type.Object({
  madeBy: Type.String(),
  imageDigest: Type.String(),
  image: Type.Optional(Type.String()),
  pauseMs: Type.Number(),
  notes: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()])),
  disks: Type.Optional(Type.Array(SnapshotDisk)),
  stays: Type.Optional(Type.Boolean()),
  healthy: Type.Optional(Type.Boolean()),
})

/** The stored description of a complete snapshot. */
export const Taken = Type.Object({
  made: Made,
  sha256: Type.String(),
  sizeBytes: Type.Integer(),
  /** Id of the transfer by which the snapshot arrived; undefined if this host took the snapshot. */
  received: Type.Optional(Type.String()),
})
export interface Taken {
  readonly made: SnapshotMade
  readonly sha256: string
  readonly sizeBytes: number
  readonly received?: string
}

/** The stored result of taking a snapshot. It is written last: a snapshot without a result has incomplete files. */
const Outcome = Type.Union([Taken, Type.Object({ error: Type.String(), generation: Type.Integer() })])
export type Outcome = Taken | { readonly error: string; readonly generation: number }

export interface StoredSnapshot {
  readonly desired: SnapshotPut
  readonly outcome: Outcome | undefined
}

/** The host's snapshot directory: `<id>/wish.json`, `<id>/outcome.json`, `<id>/files/`. */
export interface SnapshotStore {
  readonly root: string
  /** Returns the directory with the files of a complete snapshot. */
  filesDir(id: string): string
  load(): Promise<StoredSnapshot[]>
  saveDesired(desired: SnapshotPut): Promise<void>
  /** Calls `make` with an empty directory, and then moves that directory atomically to `filesDir`. */
  make<T>(id: string, make: (dir: string) => Promise<T>): Promise<T>
  saveOutcome(id: string, outcome: Outcome): Promise<void>
  /**
   * Deletes the snapshot's files but keeps its generation, so that a delayed message cannot create the snapshot again.
   */
  bury(desired: SnapshotPut): Promise<void>
  buriedGeneration(id: string): Promise<number>
}

export function snapshotStore(dataDir: string): SnapshotStore {
  const root = join(dataDir, 'snapshots')
  const dirOf = (id: string) => join(root, id)
  const tombstone = (id: string) => join(dataDir, 'gone', `snapshot.${id}`)
  return {
    root,
    filesDir: id => join(dirOf(id), 'files'),
    async load() {
      await mkdir(root, { recursive: true, mode: 0o700 })
      const all = await Promise.all((await readdir(root)).map(name => loadOne(dirOf(name))))
      return all.filter(one => one !== undefined)
    },
    async saveDesired(desired) {
      await mkdir(dirOf(desired.snapshotId), { recursive: true, mode: 0o700 })
      await writeFileAtomic(join(dirOf(desired.snapshotId), 'wish.json'), JSON.stringify(desired))
    },
    async make(id, make) {
      const [partial, files] = [join(dirOf(id), 'partial'), join(dirOf(id), 'files')]
      await rm(partial, { recursive: true, force: true })
      await rm(files, { recursive: true, force: true })
      await mkdir(partial, { mode: 0o700 })
      try {
        const result = await make(partial)
        await sealFiles(partial)
        await rename(partial, files)
        return result
      } finally {
        await rm(partial, { recursive: true, force: true })
      }
    },
    saveOutcome: (id, outcome) => writeFileAtomic(join(dirOf(id), 'outcome.json'), JSON.stringify(outcome)),
    async bury({ snapshotId, generation }) {
      await writeFileAtomic(tombstone(snapshotId), String(generation))
      await rm(dirOf(snapshotId), { recursive: true, force: true })
    },
    buriedGeneration: async id => Number((await readIfExists(tombstone(id))) ?? 0),
  }
}

/** Returns a hash of the files' names and contents, and the disk space that they use. */
export async function digestOf(dir: string): Promise<{ sha256: string; sizeBytes: number }> {
  const hash = createHash('sha256')
  let sizeBytes = 0
  for (const name of (await readdir(dir)).sort()) {
    hash.update(await digestSparse(name, join(dir, name)))
    sizeBytes += (await stat(join(dir, name))).blocks * 512
  }
  return { sha256: hash.digest('hex'), sizeBytes }
}

async function loadOne(dir: string): Promise<StoredSnapshot | undefined> {
  const desired = parse(SnapshotPut, await readIfExists(join(dir, 'wish.json')))
  // A snapshot without a stored desired state was never acknowledged, so the control plane will request it again.
  if (!desired) await rm(dir, { recursive: true, force: true })
  return desired && { desired, outcome: parse(Outcome, await readIfExists(join(dir, 'outcome.json'))) }
}

function parse<T extends TSchema>(schema: T, text: string | undefined): Static<T> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return Value.Check(schema, value) ? value : undefined
  } catch {
    return undefined // a power failure can leave an incomplete file
  }
}
