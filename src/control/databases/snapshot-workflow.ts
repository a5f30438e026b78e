/**
 * The workflow of a database snapshot: the server writes a checkpoint, the storage takes the snapshot and retains it
 * until it is deleted.
 */
import type { Tx } from '../../db/db.ts'
import { uniqueViolation } from '../../db/errors.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { pokeSweep } from '../../engine/sweeper.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { nameTaken } from '../http/errors.ts'
import type { DatabaseDeps } from './deps.ts'
import { runInside } from './probe.ts'
import { sparesSweep } from './spare-claim.ts'
import { storages } from './storage.ts'
import type { DatabaseSnapshot } from './snapshot-store.ts'
import * as snapshots from './snapshot-store.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

interface Subject extends DatabaseSnapshot {
  readonly branch: Branch
}

const makingMs = minutes(30)

export const databaseSnapshotWorkflow = (deps: DatabaseDeps) => {
  const storageOf = storages(deps)
  return workflow<Subject>()({
    kind: 'database-snapshot',
    edges: {
      checkpointing: ['copying', 'removing'],
      copying: ['keeping', 'removing'],
      keeping: ['removing'],
      removing: [],
    },
    load: async id => {
      const snapshot = await snapshots.byId(deps.db, id)
      const branch = snapshot && (await store.branch(deps.db, snapshot.branchId))
      return snapshot && branch ? { ...snapshot, branch } : undefined
    },
    preempt: s => (s.want === 'absent' ? 'removing' : undefined),
    phases: {
      /**
       * A checkpoint makes the first start of a copy faster, because less log must be replayed. The snapshot is
       * consistent without it.
       */
      async checkpointing({ subject: s, signal }) {
        await runInside(deps, s.branch, ['psql', '-qc', 'CHECKPOINT'], signal, 30_000).catch((err: unknown) => {
          deps.log.warn({ err, snapshotId: s.id }, 'no checkpoint before a snapshot, which is still consistent')
        })
        return go('copying', undefined, makingMs)
      },

      async copying({ subject: s, enteredAt, now, signal }): Promise<Next<'keeping'>> {
        if (s.state !== 'creating') return go('keeping')
        const progress = await storageOf(s.branch).snapshot(s, s.branch, signal)
        if (progress.state === 'ready')
          return go('keeping', tx =>
            finish(tx, s, { state: 'ready', error: null, ...(progress.made ?? { sizeBytes: 0, lsn: null }) }),
          )
        const late = now.getTime() - enteredAt.getTime() > makingMs
        if (progress.state === 'failed' || late) {
          const error = progress.state === 'failed' ? progress.error : 'The snapshot did not finish in time.'
          return go('keeping', tx => finish(tx, s, { state: 'failed', error, sizeBytes: 0, lsn: null }))
        }
        return wait(300, progress.write)
      },

      async keeping() {
        return wait(hours(1))
      },

      async removing({ subject: s }) {
        return done(async tx => {
          await storageOf(s.branch).dropSnapshot(tx, s)
          await snapshots.remove(tx, s.id)
        })
      },
    },
  })
}

async function finish(tx: Tx, s: Subject, end: Parameters<typeof snapshots.finish>[2]): Promise<void> {
  await snapshots.finish(tx, s.id, end)
  // A workflow that restores the branch may wait for the snapshot.
  await poke(tx, 'database', s.branchId)
  if (s.kind === 'user' && end.state === 'ready') await pokeSweep(tx, sparesSweep)
}

/** Creates the row and the workflow of a snapshot of the branch. @throws ApiError 409 `name_taken` */
export async function takeSnapshot(
  tx: Tx,
  b: Pick<Branch, 'id' | 'databaseId' | 'projectId'>,
  { name, kind }: Pick<DatabaseSnapshot, 'name' | 'kind'>,
): Promise<DatabaseSnapshot> {
  const id = newId()
  try {
    await snapshots.insert(tx, { id, databaseId: b.databaseId, branchId: b.id, projectId: b.projectId, name, kind })
  } catch (cause) {
    if (uniqueViolation(cause, 'database_snapshot_name')) throw nameTaken('snapshot of this database', name)
    throw cause
  }
  await createWorkflow(tx, 'database-snapshot', id, 'checkpointing', { deadlineMs: makingMs })
  const made = await snapshots.byId(tx, id)
  if (!made) throw new Error('BUG: a snapshot that was just inserted does not exist')
  return made
}
