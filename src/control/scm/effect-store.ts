import { type Sql, type Tx, statement } from '../../db/db.ts'

/** The effect of a webhook delivery on one app. */
export interface StoredEffect {
  readonly deliveryId: string
  readonly event: string
  readonly status: 'applied' | 'ignored' | 'refused'
  /** Why the delivery was ignored or refused; empty if it was applied. */
  readonly reason: string
  readonly branch: string
  readonly commit: string
  readonly receivedAt: Date
}

const insertEffect = statement(
  'scm.insertEffect',
  `INSERT INTO scm_effect (app_id, source, delivery_id, event, status, reason, branch, commit_hash)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
)
const effectsOfApp = statement<StoredEffect>(
  'scm.effects',
  `SELECT e.delivery_id AS "deliveryId", e.event, e.status, e.reason, e.branch, e.commit_hash AS commit,
     e.received_at AS "receivedAt"
   FROM scm_effect e WHERE e.app_id = $1 ORDER BY e.received_at DESC, e.delivery_id`,
)
const forgetEffects = statement('scm.forgetEffects', `DELETE FROM scm_effect WHERE received_at < $1`)

export const recordEffect = (
  tx: Tx,
  appId: string,
  source: string,
  { deliveryId, event, status, reason, branch, commit }: Omit<StoredEffect, 'receivedAt'>,
) => tx.run(insertEffect, [appId, source, deliveryId, event, status, reason, branch, commit])
export const effects = (sql: Sql, appId: string) => sql.rows(effectsOfApp, [appId])
export const forgetEffectsBefore = (sql: Sql, before: Date) => sql.run(forgetEffects, [before])
