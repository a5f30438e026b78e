import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface Job {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly appName: string
  readonly name: string
  readonly schedule: string
  readonly timeZone: string
  readonly command: readonly string[]
  /**
   * What happens if the job is due while an earlier run has not ended: `skip` the new run, `allow` both, or `replace`
   * the earlier run, which is cancelled.
   */
  readonly overlap: 'skip' | 'allow' | 'replace'
  readonly retries: number
  readonly timeoutSeconds: number
  readonly paused: boolean
  readonly nextAt: Date | null
  readonly note: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

const columns = `j.id, j.project_id AS "projectId", j.app_id AS "appId", a.name AS "appName", j.name, j.schedule,
  j.time_zone AS "timeZone", j.command, j.overlap, j.retries, j.timeout_seconds AS "timeoutSeconds", j.paused,
  j.next_at AS "nextAt", j.note, j.created_at AS "createdAt", j.updated_at AS "updatedAt"`
const joined = 'FROM job j JOIN app a ON a.id = j.app_id'

const jobsOfApp = statement<Job>(
  'jobs.ofApp',
  `SELECT ${columns} ${joined} WHERE j.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live' ORDER BY j.name`,
)
const jobByName = statement<Job>(
  'jobs.byName',
  `SELECT ${columns} ${joined} WHERE j.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live' AND j.name = $3`,
)
const putJob = statement(
  'jobs.put',
  `INSERT INTO job (id, project_id, app_id, name, schedule, time_zone, command, overlap, retries, timeout_seconds, paused, next_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
   ON CONFLICT (app_id, name) DO UPDATE SET schedule = excluded.schedule, time_zone = excluded.time_zone,
     command = excluded.command, overlap = excluded.overlap, retries = excluded.retries,
     timeout_seconds = excluded.timeout_seconds, paused = excluded.paused, next_at = excluded.next_at, note = NULL, updated_at = now()`,
)
const countJobs = statement<{ count: number }>('jobs.count', `SELECT count(*)::int AS count FROM job WHERE app_id = $1`)
const deleteJob = statement('jobs.delete', `DELETE FROM job WHERE id = $1`)
const dueJobs = statement<{ id: string }>(
  'jobs.due',
  `SELECT j.id FROM job j JOIN app a ON a.id = j.app_id WHERE j.next_at <= $1 AND a.want = 'live' ORDER BY j.next_at LIMIT 200`,
)
const lockJob = statement<Job>('jobs.lock', `SELECT ${columns} ${joined} WHERE j.id = $1 FOR NO KEY UPDATE OF j`)
const setNext = statement('jobs.next', `UPDATE job SET next_at = $2, note = $3 WHERE id = $1`)
const openRuns = statement<{ id: string }>(
  'jobs.openRuns',
  `SELECT id FROM run WHERE job_id = $1 AND ended_at IS NULL AND want = 'finished'`,
)
// Selects the newest attempt for each time of a schedule, if it failed and may be retried.
const failedAttempts = statement<{ jobId: string; dueAt: Date; attempt: number }>(
  'jobs.failedAttempts',
  `SELECT r.job_id AS "jobId", r.due_at AS "dueAt", r.attempt FROM run r JOIN job j ON j.id = r.job_id
   JOIN app a ON a.id = j.app_id
   WHERE r.due_at IS NOT NULL AND r.outcome IN ('failed', 'timed_out', 'lost') AND r.ended_at > $1
     AND r.attempt <= j.retries AND NOT j.paused AND a.want = 'live'
     AND NOT EXISTS (SELECT FROM run later WHERE later.job_id = r.job_id AND later.due_at = r.due_at AND later.attempt > r.attempt)
   LIMIT 200`,
)

export const ofApp = (sql: Sql, projectId: string, app: string) => sql.rows(jobsOfApp, [projectId, app])
export const byName = (sql: Sql, projectId: string, app: string, name: string) =>
  sql.maybe(jobByName, [projectId, app, name])
export const put = (tx: Tx, job: Omit<Job, 'appName' | 'note' | 'createdAt' | 'updatedAt'>) =>
  tx.run(putJob, [
    job.id,
    job.projectId,
    job.appId,
    job.name,
    job.schedule,
    job.timeZone,
    job.command,
    job.overlap,
    job.retries,
    job.timeoutSeconds,
    job.paused,
    job.nextAt,
  ])
export const count = async (sql: Sql, appId: string) => (await sql.one(countJobs, [appId])).count
export const remove = (tx: Tx, id: string) => tx.run(deleteJob, [id])
export const due = async (sql: Sql, now: Date) => (await sql.rows(dueJobs, [now])).map(row => row.id)
export const lock = (tx: Tx, id: string) => tx.maybe(lockJob, [id])
/** Sets the time at which the job is due next. @param note reason why there was no run at the previous time */
export const next = (tx: Tx, id: string, at: Date | null, note: string | null) => tx.run(setNext, [id, at, note])
export const open = async (sql: Sql, jobId: string) => (await sql.rows(openRuns, [jobId])).map(row => row.id)
export const failed = (sql: Sql, endedAfter: Date) => sql.rows(failedAttempts, [endedAfter])
