import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Amounts, BudgetState, Month } from './rules.ts'

const computeUsed = statement<{ vcpuSeconds: number; memoryMibSeconds: number }>(
  'usage.compute',
  `SELECT coalesce(sum(vcpus * s), 0)::float8 AS "vcpuSeconds", coalesce(sum(memory_mib * s), 0)::float8 AS "memoryMibSeconds"
   FROM (SELECT vcpus, memory_mib,
           extract(epoch FROM least(coalesce(ended_at, $4), $3, $4) - greatest(started_at, $2)) AS s
         FROM usage_span WHERE project_id = $1 AND started_at < least($3, $4) AND coalesce(ended_at, $4) > $2) span`,
)
const sampledOf = statement<{ storageMibSeconds: number; egressBytes: number }>(
  'usage.sampled',
  `SELECT storage_mib_seconds AS "storageMibSeconds", egress_bytes AS "egressBytes" FROM usage_month
   WHERE project_id = $1 AND month = $2`,
)
const lockMark = statement<{ countedUntil: Date }>(
  'usage.lockMark',
  `SELECT counted_until AS "countedUntil" FROM usage_mark FOR UPDATE`,
)
// One statement adds the storage and moves the time up to which storage is counted, so that no time span is counted
// twice or missed.
const countStorage = statement(
  'usage.countStorage',
  `WITH held AS (
     SELECT project_id, sum(size_mib * extract(epoch FROM $2 - greatest(created_at, $1))) AS amount
     FROM volume v WHERE want = 'present' AND created_at < $2
       AND NOT EXISTS (SELECT FROM branch b WHERE b.id = v.owner_id AND b.kind = 'spare') GROUP BY project_id
   ), counted AS (
     INSERT INTO usage_month AS m (project_id, month, storage_mib_seconds)
     SELECT project_id, $3, amount FROM held
     ON CONFLICT (project_id, month) DO UPDATE SET storage_mib_seconds = m.storage_mib_seconds + excluded.storage_mib_seconds
   )
   UPDATE usage_mark SET counted_until = $2`,
)
const runningVms = statement<{ id: string }>('usage.runningVms', `SELECT id FROM vm WHERE host_id IS NOT NULL`)
// A VM whose counter is lower than the last counted value has restarted, and its counter has started again from zero.
const countEgress = statement(
  'usage.countEgress',
  `WITH news AS (
     SELECT v.id, v.project_id, t.bytes,
       CASE WHEN e.counted_bytes IS NULL OR t.bytes < e.counted_bytes THEN t.bytes ELSE t.bytes - e.counted_bytes END AS more
     FROM unnest($1::uuid[], $2::bigint[]) AS t(vm_id, bytes) JOIN vm v ON v.id = t.vm_id
     LEFT JOIN usage_egress e ON e.vm_id = t.vm_id
   ), noted AS (
     INSERT INTO usage_egress (vm_id, counted_bytes) SELECT id, bytes FROM news WHERE more > 0
     ON CONFLICT (vm_id) DO UPDATE SET counted_bytes = excluded.counted_bytes, seen_at = now()
   )
   INSERT INTO usage_month AS m (project_id, month, egress_bytes)
   SELECT project_id, $3, sum(more) FROM news WHERE more > 0 GROUP BY project_id
   ON CONFLICT (project_id, month) DO UPDATE SET egress_bytes = m.egress_bytes + excluded.egress_bytes`,
)
const forgetEgress = statement(
  'usage.forgetEgress',
  `DELETE FROM usage_egress e WHERE seen_at < now() - interval '1 day' AND NOT EXISTS (SELECT FROM vm WHERE vm.id = e.vm_id)`,
)
const forgetSpans = statement('usage.forgetSpans', `DELETE FROM usage_span WHERE ended_at < $1`)

export interface Budget {
  readonly projectId: string
  readonly monthlyCents: number
  readonly state: BudgetState
  readonly month: Date
  readonly changedAt: Date
}
const budgetColumns = `project_id AS "projectId", monthly_cents AS "monthlyCents", state, month, changed_at AS "changedAt"`
const budgetOf = statement<Budget>('usage.budget', `SELECT ${budgetColumns} FROM budget WHERE project_id = $1`)
const allBudgets = statement<Budget>(
  'usage.budgets',
  `SELECT ${budgetColumns} FROM budget JOIN project p ON p.id = project_id WHERE p.want = 'live'`,
)
const putBudget = statement(
  'usage.putBudget',
  `INSERT INTO budget (project_id, monthly_cents) VALUES ($1, $2)
   ON CONFLICT (project_id) DO UPDATE SET monthly_cents = excluded.monthly_cents`,
)
const dropBudget = statement('usage.dropBudget', `DELETE FROM budget WHERE project_id = $1`)
const moveBudget = statement(
  'usage.moveBudget',
  `UPDATE budget SET state = $2, month = $3, changed_at = now() WHERE project_id = $1`,
)
const setCap = statement(
  'usage.setCap',
  `UPDATE project SET capped_at = CASE WHEN $2 THEN coalesce(capped_at, now()) END
   WHERE id = $1 AND (capped_at IS NOT NULL) <> $2`,
)
/** Stops routing to all active apps. Their deployments then scale to zero, like those of any idle app. */
const putToSleep = statement<{ id: string; deploymentId: string }>(
  'usage.putToSleep',
  `UPDATE app SET scale_state = 'idle', scale_changed_at = now()
   WHERE project_id = $1 AND want = 'live' AND scale_state = 'active' AND active_deployment_id IS NOT NULL
   RETURNING id, active_deployment_id AS "deploymentId"`,
)
const holdApps = statement<{ id: string }>(
  'usage.holdApps',
  `SELECT id FROM app WHERE project_id = $1 AND want = 'live' ORDER BY id FOR NO KEY UPDATE`,
)
/**
 * Apps that sleep because of the budget. Only apps with `min_replicas` above 0 count, because they never sleep for
 * another reason.
 */
const sleepers = statement<{ id: string }>(
  'usage.sleepers',
  `SELECT id FROM app WHERE project_id = $1 AND want = 'live' AND min_replicas > 0 AND scale_state IN ('idle', 'scaled_to_zero') ORDER BY id`,
)

/** Returns the project's usage in the month, up to `now`. */
export async function used(sql: Sql, projectId: string, { from, to }: Month, now: Date): Promise<Amounts> {
  const compute = await sql.one(computeUsed, [projectId, from, to, now])
  const sampled = await sql.maybe(sampledOf, [projectId, from])
  return { ...compute, storageMibSeconds: sampled?.storageMibSeconds ?? 0, egressBytes: sampled?.egressBytes ?? 0 }
}
/** Returns the time up to which storage has been counted, and locks the row until the transaction ends. */
export const mark = async (tx: Tx) => (await tx.one(lockMark)).countedUntil
export const addStorage = (tx: Tx, from: Date, to: Date, month: Date) => tx.run(countStorage, [from, to, month])
export const vmIds = async (sql: Sql) => (await sql.rows(runningVms)).map(row => row.id)
/** Counts egress. @param bytes number of bytes that each VM has sent since it started */
export const addEgress = (tx: Tx, bytes: ReadonlyMap<string, number>, month: Date) =>
  tx.run(countEgress, [[...bytes.keys()], [...bytes.values()], month])
export const forget = async (sql: Sql, spansBefore: Date) => {
  await sql.run(forgetEgress)
  await sql.run(forgetSpans, [spansBefore])
}
/**
 * Locks the project's apps until the transaction ends. Must come before locking the project (docs/engine.md, order of
 * locks).
 */
export const hold = (tx: Tx, projectId: string) => tx.rows(holdApps, [projectId])
export const budget = (sql: Sql, projectId: string) => sql.maybe(budgetOf, [projectId])
export const budgets = (sql: Sql) => sql.rows(allBudgets)
export const setBudget = (tx: Tx, projectId: string, cents: number | null) =>
  cents === null ? tx.run(dropBudget, [projectId]) : tx.run(putBudget, [projectId, cents])
export const move = (tx: Tx, projectId: string, state: BudgetState, month: Date) =>
  tx.run(moveBudget, [projectId, state, month])
/** Marks the project as capped (its budget is used up) or not. Returns false if it already was. */
export const cap = async (tx: Tx, projectId: string, isCapped: boolean) =>
  (await tx.run(setCap, [projectId, isCapped])) === 1
export const sleep = (tx: Tx, projectId: string) => tx.rows(putToSleep, [projectId])
export const asleep = async (tx: Tx, projectId: string) => (await tx.rows(sleepers, [projectId])).map(row => row.id)
