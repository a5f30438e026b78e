/**
 * Storage of a branch on a page server. The branch is a timeline, and a copy of the branch is a new timeline whose
 * ancestor is the branch's timeline.
 */
import type { Tx } from '../../db/db.ts'
import { randomBytes } from 'node:crypto'
import type { DatabaseDeps } from './deps.ts'
import { provision } from './provision.ts'
import { type NewTimeline, pageserver } from './pageserver.ts'
import * as snapshots from './snapshot-store.ts'
import type { Progress, Storage } from './storage.ts'
import { pageserverOf } from './storage-nodes.ts'
import type { Branch } from './store.ts'
import * as restores from './restore-store.ts'
import * as store from './store.ts'

/** Returns a new id for a tenant or timeline on a page server: 32 lower-case hex digits. */
export const newStorageId = (): string => randomBytes(16).toString('hex')

export function neonStorage(deps: DatabaseDeps): Storage {
  const serverOf = ({ database }: Branch) => pageserver(pageserverOf(deps.config.databases, database.storageNode))

  return {
    async make(b, signal): Promise<Progress> {
      if (b.appId !== null) return { state: 'ready' }
      const { tenantId, tenantGen, version } = b.database
      await serverOf(b).attach(tenantId, tenantGen, signal)
      const ancestor = await ancestorOf(b, signal)
      await serverOf(b).createTimeline(tenantId, { timelineId: b.timelineId, version, ...ancestor }, signal)
      // If the tenant's generation was raised in the meantime, the timeline was created under an old generation, so the
      // step is repeated.
      const now = await store.byId(deps.db, b.databaseId)
      if (now?.tenantGen !== tenantGen) return { state: 'waiting', ms: 0 }
      return { state: 'ready', write: tx => provision(deps, tx, b, { dataVolumeId: null, backupVolumeId: null }) }
    },

    /**
     * Restores the branch by giving it a new timeline that starts at the snapshot. Its old timeline stays unchanged.
     */
    async beginRewind(tx, b) {
      await restores.nextTimeline(tx, b.id, newStorageId())
    },

    async rewind(b, signal): Promise<Progress> {
      const snapshot = b.restoreSnapshotId ? await snapshots.byId(deps.db, b.restoreSnapshotId) : undefined
      const from = b.previousTimelineId
      if (!snapshot?.lsn || !from) return { state: 'failed', error: 'The snapshot no longer exists.' }
      const { tenantId, version } = b.database
      const ancestor = { timelineId: from, lsn: snapshot.lsn }
      await serverOf(b).createTimeline(tenantId, { timelineId: b.timelineId, version, ancestor }, signal)
      return { state: 'ready' }
    },

    async release(b, signal): Promise<Progress> {
      const { tenantId } = b.database
      // If the database is being deleted, the first of its branches deletes the whole tenant, because a timeline with
      // descendants cannot be deleted alone.
      const gone =
        b.databaseWant === 'deleted'
          ? await serverOf(b).deleteTenant(tenantId, signal)
          : await serverOf(b).deleteTimeline(tenantId, b.timelineId, signal)
      return gone ? { state: 'ready' } : { state: 'waiting', ms: 500 }
    },

    async snapshot(_s, b, signal) {
      const timeline = await serverOf(b).timeline(b.database.tenantId, b.timelineId, signal)
      if (!timeline) return { state: 'failed', error: 'The page server does not have the branch.' }
      const sizeBytes = timeline.current_logical_size ?? 0
      return { state: 'ready', made: { sizeBytes, lsn: timeline.last_record_lsn } }
    },

    // A snapshot on a page server is only a log position, so there is nothing to remove.
    dropSnapshot: async (_tx: Tx) => undefined,
  }

  async function ancestorOf(b: Branch, signal: AbortSignal): Promise<Pick<NewTimeline, 'ancestor'>> {
    const parent = b.parentId ? await store.branch(deps.db, b.parentId) : undefined
    if (!parent) return {}
    const { timelineId } = parent
    const snapshot = b.fromSnapshotId ? await snapshots.byId(deps.db, b.fromSnapshotId) : undefined
    if (snapshot?.lsn) return { ancestor: { timelineId, lsn: snapshot.lsn } }
    if (b.fromMoment === null || b.fromMoment === 'latest') return { ancestor: { timelineId } }
    const at = new Date(b.fromMoment).toISOString()
    return { ancestor: { timelineId, lsn: await serverOf(b).lsnAt(b.database.tenantId, timelineId, at, signal) } }
  }
}
