import { type Db, statement } from '../../db/db.ts'

// Selects the newest sealed row that may be removed. All rows up to that one are removed, and the chain then starts
// after it.
const cut = statement<{ position: number; hash: Buffer }>(
  'audit.cut',
  `SELECT position, hash FROM audit_log
   WHERE position > (SELECT first_position FROM audit_chain)
     AND position <= (SELECT first_position FROM audit_chain) + $2 AND created_at < $1
   ORDER BY position DESC LIMIT 1`,
)
const allow = statement('audit.allowRetention', `SELECT set_config('mote.audit_retention', 'on', true)`)
const lockChain = statement('audit.lockChain', `SELECT singleton FROM audit_chain FOR UPDATE`)
const subtract = statement(
  'audit.subtractCounts',
  `UPDATE audit_count c SET rows = c.rows - gone.rows FROM (
     SELECT scope_id, action, resource_type, count(*) AS rows FROM audit_log WHERE position <= $1 GROUP BY 1, 2, 3) gone
   WHERE (c.scope_id, c.action, c.resource_type) = (gone.scope_id, gone.action, gone.resource_type)`,
)
const removeUpTo = statement('audit.removeUpTo', `DELETE FROM audit_log WHERE position <= $1`)
const moveStart = statement('audit.moveStart', `UPDATE audit_chain SET first_position = $1, first_hash = $2`)

/**
 * Removes at most `limit` sealed audit rows older than `before`, oldest first. The remaining chain can still be
 * verified.
 */
export function removeOldAudit(db: Db, before: Date, limit: number): Promise<number> {
  return db.tx(async tx => {
    await tx.run(lockChain)
    const last = await tx.maybe(cut, [before, limit])
    if (!last) return 0
    await tx.one(allow)
    await tx.run(subtract, [last.position])
    const removed = await tx.run(removeUpTo, [last.position])
    await tx.run(moveStart, [last.position, last.hash])
    return removed
  })
}
