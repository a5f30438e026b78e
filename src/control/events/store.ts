import { type Db, type Tx, statement } from '../../db/db.ts'
import type { ProjectEventData, ProjectEventKind } from './schema.ts'

export interface EventRow {
  readonly position: number
  readonly projectId: string
  readonly kind: string
  readonly appId: string | null
  readonly deploymentId: string | null
  readonly data: Record<string, unknown>
  readonly at: Date
}

const columns = `position, project_id AS "projectId", kind, app_id AS "appId", deployment_id AS "deploymentId", data, created_at AS at`

const insertEvent = statement(
  'events.insert',
  `WITH made AS (INSERT INTO event (project_id, kind, app_id, deployment_id, data) VALUES ($1, $2, $3, $4, $5))
   SELECT pg_notify('event', '')`,
)
export interface PlacedEvent extends EventRow {
  /**
   * Position of the project's previous event; 0 if there is none, or none is stored any more. A stream that has not
   * seen an event with this position has missed it.
   */
  readonly previous: number
}

// Assigns positions only to events whose transaction has ended, together with all older transactions. So an event that
// commits later always gets a larger position.
const placeEvents = statement<PlacedEvent>(
  'events.place',
  `WITH due AS (
     SELECT seq FROM event
     WHERE position IS NULL AND xid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY seq LIMIT $1
   ), numbered AS (
     SELECT seq, nextval('event_position') AS position FROM (SELECT seq FROM due ORDER BY seq) ordered
   ), placed AS (
     UPDATE event e SET position = n.position FROM numbered n WHERE e.seq = n.seq
     RETURNING e.position, e.project_id, e.kind, e.app_id, e.deployment_id, e.data, e.created_at
   )
   SELECT ${columns}, coalesce(lag(position) OVER (PARTITION BY project_id ORDER BY position),
     (SELECT max(e.position) FROM event e WHERE e.project_id = placed.project_id AND e.position IS NOT NULL), 0) AS previous
   FROM placed ORDER BY position`,
)
const countUnplaced = statement<{ unplaced: boolean }>(
  'events.unplaced',
  `SELECT EXISTS (SELECT 1 FROM event WHERE position IS NULL) AS unplaced`,
)
const eventsAfter = statement<EventRow>(
  'events.after',
  `SELECT ${columns} FROM event WHERE project_id = $1 AND position > $2 ORDER BY position LIMIT $3`,
)
const newestPosition = statement<{ position: number }>(
  'events.newest',
  `SELECT coalesce(max(position), 0) AS position FROM event WHERE project_id = $1 AND position IS NOT NULL`,
)
const oldestPosition = statement<{ position: number }>(
  'events.oldest',
  `SELECT coalesce(min(position), 0) AS position FROM event WHERE position IS NOT NULL`,
)
const deleteOld = statement(
  'events.deleteOld',
  `DELETE FROM event WHERE seq IN (
     SELECT seq FROM event WHERE created_at < $1 AND position IS NOT NULL ORDER BY created_at LIMIT 10000)`,
)

export type NewEvent = {
  [Kind in ProjectEventKind]: {
    readonly projectId: string
    readonly kind: Kind
    readonly appId?: string
    readonly deploymentId?: string
    readonly data: ProjectEventData<Kind>
  }
}[ProjectEventKind]

/** Adds an event to the outbox in the caller's transaction. Streams get it a few milliseconds after the commit. */
export function publishEvent(tx: Tx, event: NewEvent): void {
  tx.atCommit(insertEvent, [event.projectId, event.kind, event.appId ?? null, event.deploymentId ?? null, event.data])
}

export const place = (db: Db, limit: number) => db.rows(placeEvents, [limit])
export const hasUnplaced = async (db: Db) => (await db.one(countUnplaced)).unplaced
export const after = (db: Db, projectId: string, position: number, limit: number) =>
  db.rows(eventsAfter, [projectId, position, limit])
export const newest = async (db: Db, projectId: string) => (await db.one(newestPosition, [projectId])).position
/**
 * Returns the smallest position among the stored events of all projects. Positions are shared between projects, so only
 * this one shows whether events were deleted.
 */
export const oldest = async (db: Db) => (await db.one(oldestPosition)).position
export const removeOlderThan = (db: Db, before: Date) => db.run(deleteOld, [before])
