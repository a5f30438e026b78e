/**
 * All SQL statements of the engine. The runner gets them as a value, so that mutants.test.ts can remove one guard at a
 * time and prove that it is necessary.
 */
import { type Statement, statement } from '../db/db.ts'

export interface ClaimedRow {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly lease: string
  readonly pokes: number
  readonly attempt: number
  readonly entered_at: Date
  readonly now: Date
}

/** Identifies a committed step of a batch. */
export type Fenced = Pick<ClaimedRow, 'kind' | 'id' | 'lease'>

export interface AlertRow {
  readonly kind: string
  readonly machine_id: string
  readonly phase: string
}

export interface WorkflowRow {
  readonly phase: string
  readonly entered_at: Date
  readonly wake_at: Date
  readonly attempt: number
  readonly last_error: string | null
  readonly deadline: Date | null
  readonly leased: boolean
}

/** NOTIFY channel on which a due workflow is announced; the payload is its kind. */
export const wakeChannel = 'machine'

const lockPrefix = 'runner '
/** Name of the lock that a runner holds while it is alive. */
export const runnerLock = (runnerId: string) => lockPrefix + runnerId

/**
 * Returns an SQL condition that is true while some live runner does not support this kind of workflow. Such a runner is
 * of an older version, in which other workflows may lack code for this kind. Each session that holds a runner's lock is
 * named after the lock, so runners of versions that announce no kinds are found, too.
 */
export const someRunnerLacks = (kind: string) => `EXISTS (
  SELECT FROM pg_stat_activity a WHERE a.datname = current_database() AND starts_with(a.application_name, 'mote-lock ${lockPrefix}')
    AND NOT EXISTS (SELECT FROM runner r WHERE a.application_name = 'mote-lock ${lockPrefix}' || r.id AND '${kind}' = ANY (r.kinds)))`

const unleased = 'lease = NULL, lease_until = NULL, runner = NULL'
const fence = 'kind = $1 AND id = $2 AND lease = $3'
const fenceOfMany = 'm.kind = s.kind AND m.id = s.id AND m.lease = s.lease'
const ms = (parameter: string) => `now() + ${parameter} * interval '1 millisecond'`

export const engineStatements = {
  create: statement<{ id: string }>(
    'engine.create',
    `WITH made AS (
       INSERT INTO machine (kind, id, phase, wake_at, deadline) VALUES ($1, $2, $3, ${ms('$4::float8')}, ${ms('$5::float8')})
       RETURNING id)
     SELECT id, CASE WHEN $4::float8 > 0 THEN NULL ELSE pg_notify('${wakeChannel}', $1) END FROM made`,
  ),
  /**
   * Moves a workflow to another phase. $3 current phase, $4 new phase, $5 delay of the next step in ms, $6 deadline in
   * ms or null. Skips a workflow that a runner holds or is committing instead of waiting, because the caller holds
   * locks that come later in the lock order (docs/engine.md).
   */
  advance: statement<{ id: string }>(
    'engine.advance',
    `WITH free AS (
       SELECT kind, id FROM machine WHERE kind = $1 AND id = $2 AND phase = $3 AND lease IS NULL FOR NO KEY UPDATE SKIP LOCKED)
     UPDATE machine m SET phase = $4, entered_at = now(), wake_at = ${ms('$5::float8')}, attempt = 0, last_error = NULL,
       deadline = ${ms('$6::float8')}
     FROM free WHERE m.kind = free.kind AND m.id = free.id
     RETURNING m.id, CASE WHEN $5::float8 > 0 THEN NULL ELSE pg_notify('${wakeChannel}', $1) END`,
  ),
  /**
   * Pokes workflows. Inserts rows instead of updating those of the workflows, so it waits for no lock. Transactions
   * that poke hold locks on many kinds of rows; when they waited for a workflow that was being committed, they
   * deadlocked.
   */
  poke: statement(
    'engine.poke',
    `WITH poked AS (INSERT INTO machine_poke (kind, id) SELECT $1, unnest($2::uuid[]))
     SELECT pg_notify('${wakeChannel}', $1)`,
  ),
  /**
   * Turns pokes into wake-ups; runs before each claim. A workflow that is already due keeps its earlier wake-up time
   * and so its position in the queue. A workflow that is being committed is skipped, because one slow commit would
   * delay every claim; the runner that commits it delivers pokes again right after the commit. LATERAL and the scalar
   * subquery keep the planner from reading all workflows for a few pokes.
   */
  deliver: statement<{ id: string }>(
    'engine.deliver',
    `WITH poke AS (SELECT ctid, kind, id FROM machine_poke LIMIT 2000 FOR UPDATE SKIP LOCKED),
     target AS (
       SELECT free.kind, free.id FROM (SELECT DISTINCT kind, id FROM poke) p CROSS JOIN LATERAL (
         SELECT kind, id FROM machine m WHERE m.kind = p.kind AND m.id = p.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) free),
     taken AS (
       DELETE FROM machine_poke WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM poke WHERE (kind, id) IN (SELECT kind, id FROM target)
           OR (SELECT id FROM machine m WHERE m.kind = poke.kind AND m.id = poke.id) IS NULL))
       RETURNING kind, id),
     news AS (SELECT kind, id, count(*) AS n FROM taken GROUP BY kind, id)
     UPDATE machine m SET pokes = m.pokes + news.n, wake_at = least(m.wake_at, now())
     FROM news WHERE m.kind = news.kind AND m.id = news.id RETURNING m.id`,
    // The claim and the query for the next due time follow this statement on the same connection.
    { leads: 2 },
  ),
  read: statement<WorkflowRow>(
    'engine.read',
    `SELECT phase, entered_at, wake_at, attempt, last_error, deadline, lease IS NOT NULL AS leased
     FROM machine WHERE kind = $1 AND id = $2`,
  ),

  /**
   * Claims due workflows. $1 kinds, $2 limit, $3 lease, $4 lease in ms, $5 runner. An expired lease counts as a failed
   * attempt.
   */
  claim: statement<ClaimedRow>(
    'engine.claim',
    `WITH due AS (
       SELECT kind, id FROM machine
       WHERE wake_at <= now() AND kind = ANY ($1) AND (lease_until IS NULL OR lease_until <= now())
       ORDER BY wake_at LIMIT $2 FOR UPDATE SKIP LOCKED)
     UPDATE machine m SET lease = $3, lease_until = ${ms('$4::float8')}, runner = $5,
       attempt = attempt + (m.lease IS NOT NULL)::int
     FROM due WHERE m.kind = due.kind AND m.id = due.id
     RETURNING m.kind, m.id, m.phase, m.lease, m.pokes, m.attempt, m.entered_at, now() AS now`,
  ),
  /** Returns the time until the next free workflow of these kinds is due; zero or less if one is already due. */
  untilDue: statement<{ ms: number | null }>(
    'engine.until_due',
    `SELECT (extract(epoch FROM min(wake_at) - now()) * 1000)::float8 AS ms FROM machine WHERE lease IS NULL AND kind = ANY ($1)`,
  ),

  /** Commits `go`. $4 phase, $5 deadline in ms or null. */
  go: statement<{ fenced: number }>(
    'engine.go',
    `WITH fenced AS (
       UPDATE machine SET phase = $4, entered_at = now(), wake_at = now(), attempt = 0, last_error = NULL,
         deadline = ${ms('$5::float8')}, ${unleased}
       WHERE ${fence} RETURNING 1),
     closed AS (
       UPDATE alert SET closed_at = now()
       WHERE kind = $1 AND machine_id = $2 AND closed_at IS NULL AND EXISTS (SELECT FROM fenced))
     SELECT count(*) AS fenced FROM fenced`,
  ),
  /**
   * Commits `wait`. $4 delay in ms, $5 number of pokes at the claim: if there are more by now, the handler may have
   * missed a change, so the workflow is due at once.
   */
  wait: statement<{ fenced: number }>(
    'engine.wait',
    `WITH fenced AS (
       UPDATE machine SET wake_at = CASE WHEN pokes = $5 THEN ${ms('$4::float8')} ELSE now() END,
         attempt = 0, last_error = NULL, ${unleased}
       WHERE ${fence} RETURNING 1)
     SELECT count(*) AS fenced FROM fenced`,
  ),
  /**
   * Commits `go` for several steps. $1 kinds, $2 ids, $3 leases, $4 phases, $5 deadlines. The inner SELECTs hide the
   * array lengths from the planner, so that one plan fits all lengths.
   */
  goAll: statement<Fenced>(
    'engine.go_all',
    `WITH fenced AS (
       UPDATE machine m SET phase = s.phase, entered_at = now(), wake_at = now(), attempt = 0, last_error = NULL,
         deadline = ${ms('s.deadline_ms')}, ${unleased}
       FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::uuid[]), (SELECT $4::text[]), (SELECT $5::float8[]))
         AS s (kind, id, lease, phase, deadline_ms)
       WHERE ${fenceOfMany} RETURNING m.kind, m.id, s.lease),
     closed AS (
       UPDATE alert a SET closed_at = now() FROM fenced f
       WHERE a.kind = f.kind AND a.machine_id = f.id AND a.closed_at IS NULL)
     SELECT kind, id, lease FROM fenced`,
  ),
  /** Commits `wait` for several steps. $1 kinds, $2 ids, $3 leases, $4 delays, $5 numbers of pokes. */
  waitAll: statement<Fenced>(
    'engine.wait_all',
    `UPDATE machine m SET wake_at = CASE WHEN m.pokes = s.pokes THEN ${ms('s.wait_ms')} ELSE now() END,
       attempt = 0, last_error = NULL, ${unleased}
     FROM unnest((SELECT $1::text[]), (SELECT $2::uuid[]), (SELECT $3::uuid[]), (SELECT $4::float8[]), (SELECT $5::bigint[]))
       AS s (kind, id, lease, wait_ms, pokes)
     WHERE ${fenceOfMany} RETURNING m.kind, m.id, s.lease`,
  ),
  done: statement<{ fenced: number }>(
    'engine.done',
    `WITH fenced AS (DELETE FROM machine WHERE ${fence} RETURNING 1),
     closed AS (
       UPDATE alert SET closed_at = now()
       WHERE kind = $1 AND machine_id = $2 AND closed_at IS NULL AND EXISTS (SELECT FROM fenced))
     SELECT count(*) AS fenced FROM fenced`,
  ),
  /** Records a failed attempt. $4 back-off in ms, $5 number of pokes at the claim, $6 error message. */
  fail: statement<{ fenced: number }>(
    'engine.fail',
    `WITH fenced AS (
       UPDATE machine SET wake_at = CASE WHEN pokes = $5 THEN ${ms('$4::float8')} ELSE now() END,
         attempt = attempt + 1, last_error = $6, ${unleased}
       WHERE ${fence} RETURNING 1)
     SELECT count(*) AS fenced FROM fenced`,
  ),
  /** Releases a workflow that a runner holds, unchanged, because the runner stops. */
  release: statement<{ fenced: number }>(
    'engine.release',
    `WITH fenced AS (UPDATE machine SET ${unleased} WHERE ${fence} RETURNING 1)
     SELECT count(*) AS fenced FROM fenced, pg_notify('${wakeChannel}', $1)`,
  ),

  /**
   * Releases the workflows of dead runners at once, before their leases expire. Counts the death of the runner as a
   * failed attempt; from the second attempt on there is a growing pause, so that a step that kills its process cannot
   * cause a loop. Skips rows that are being committed until the next upkeep: a statement that locks many rows must not
   * wait.
   */
  releaseDead: statement<{ id: string }>(
    'engine.release_dead',
    `WITH orphan AS (
       SELECT kind, id FROM machine m
       WHERE lease IS NOT NULL AND NOT EXISTS (
         SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('${lockPrefix}' || m.runner, 0))
       FOR UPDATE OF m SKIP LOCKED)
     UPDATE machine m SET ${unleased}, attempt = attempt + 1, last_error = 'the runner died during this step',
       wake_at = CASE WHEN attempt = 0 THEN wake_at ELSE ${ms('least(60000, 250 * 2 ^ least(attempt, 10))')} END
     FROM orphan WHERE m.kind = orphan.kind AND m.id = orphan.id
     RETURNING m.id`,
  ),
  /** Stores which workflow kinds a live runner supports. $1 runner id, $2 kinds. */
  announce: statement(
    'engine.announce',
    `INSERT INTO runner (id, kinds) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET kinds = excluded.kinds`,
  ),
  forgetDead: statement(
    'engine.forget_dead',
    `DELETE FROM runner r WHERE NOT EXISTS (
       SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('${lockPrefix}' || r.id, 0))`,
  ),
  openAlerts: statement<AlertRow>(
    'engine.open_alerts',
    `INSERT INTO alert (kind, machine_id, phase) SELECT kind, id, phase FROM machine WHERE deadline <= now()
     ON CONFLICT (kind, machine_id, phase) WHERE closed_at IS NULL DO NOTHING
     RETURNING kind, machine_id, phase`,
  ),
  /**
   * Closes alerts whose workflow has left the phase. `go` also closes alerts, but misses one that is opened at the same
   * time.
   */
  closeAlerts: statement<AlertRow>(
    'engine.close_alerts',
    `UPDATE alert a SET closed_at = now()
     WHERE closed_at IS NULL AND NOT EXISTS (
       SELECT FROM machine m WHERE m.kind = a.kind AND m.id = a.machine_id AND m.phase = a.phase AND m.deadline <= now())
     RETURNING kind, machine_id, phase`,
  ),
  unknownKinds: statement<{ kind: string }>(
    'engine.unknown_kinds',
    'SELECT DISTINCT kind FROM machine WHERE kind <> ALL ($1)',
  ),
} satisfies Readonly<Record<string, Statement<unknown>>>

export type EngineStatements = typeof engineStatements
