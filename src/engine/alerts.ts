import { type Sql, statement } from '../db/db.ts'

/** An alert: a workflow has exceeded the deadline of its phase. Includes the workflow's last error. */
export interface OpenAlert {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly openedAt: Date
  /**
   * Number of consecutive failed attempts in the phase. Null if the workflow no longer exists; the same holds for
   * `lastError`.
   */
  readonly attempt: number | null
  readonly lastError: string | null
}

const open = statement<OpenAlert>(
  'engine.open_alerts_now',
  `SELECT a.kind, a.machine_id AS id, a.phase, a.opened_at AS "openedAt", m.attempt, m.last_error AS "lastError"
   FROM alert a LEFT JOIN machine m ON m.kind = a.kind AND m.id = a.machine_id
   WHERE a.closed_at IS NULL ORDER BY a.opened_at LIMIT 1000`,
)

/** Returns the open alerts, oldest first, at most 1,000. */
export const openAlerts = (from: Sql): Promise<OpenAlert[]> => from.rows(open)
