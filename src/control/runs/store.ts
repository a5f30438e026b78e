/** Database rows of runs, which are one-off VMs with the image and environment of a deployment. */
import type { VmObserved } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'

export type Outcome = 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost'
export type Purpose = 'command' | 'release' | 'job'

export interface Run {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly jobId: string
  readonly accountId: string | null
  readonly purpose: Purpose
  /** Name of the job to which the run belongs; null if it belongs to none, or the job was deleted. */
  readonly jobName: string | null
  /** Time of the job's schedule at which the run was due; null if it was started by hand. */
  readonly dueAt: Date | null
  readonly attempt: number
  /** Command to run; null: the VM waits for sessions. */
  readonly command: readonly string[] | null
  readonly timeoutSeconds: number
  readonly want: 'finished' | 'cancelled'
  readonly outcome: Outcome | null
  readonly exitCode: number | null
  readonly error: string | null
  readonly log: string | null
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly endedAt: Date | null
  /** True if the deployment or app of the run is being deleted. */
  readonly isOrphan: boolean
  readonly vm: RunVm | null
  /** Sessions in the run's VM; used only if the run has no command. */
  readonly sessions: SessionsOfRun
}

interface SessionsOfRun {
  readonly open: number
  readonly lastEndedAt: Date | null
  /**
   * Exit status of the session that ended last, as a shell reports it: the exit code, or 128 plus the number of the
   * signal that killed the program. Null: unknown.
   */
  readonly lastCode: number | null
}

export interface JobOfRun {
  readonly id: string
  /** Time of the job's schedule at which the run was due; null if it was started by hand. */
  readonly dueAt: Date | null
  readonly attempt: number
}

export interface RunVm {
  readonly id: string
  readonly hostId: string | null
  readonly want: 'running' | 'paused' | 'stopped' | 'absent'
  readonly observedState: VmObserved['state'] | null
  readonly error: string | null
  readonly exitCode: number | null
  readonly note: string | null
}

const columns = `r.id, r.project_id AS "projectId", r.app_id AS "appId", r.deployment_id AS "deploymentId", d.job_id AS "jobId",
  r.account_id AS "accountId", r.purpose, r.due_at AS "dueAt", r.attempt,
  (SELECT j.name FROM job j WHERE j.id = r.job_id) AS "jobName", r.command, r.timeout_seconds AS "timeoutSeconds", r.want, r.outcome,
  r.exit_code AS "exitCode", r.error, r.log, r.created_at AS "createdAt", r.started_at AS "startedAt", r.ended_at AS "endedAt",
  (d.want = 'deleted' OR a.want = 'deleted') AS "isOrphan",
  (SELECT jsonb_build_object('id', v.id, 'hostId', v.host_id, 'want', v.want, 'observedState', v.seen_state,
     'error', v.seen_error, 'exitCode', v.seen_exit_code, 'note', v.placement_note)
   FROM vm v WHERE v.run_id = r.id LIMIT 1) AS vm`
const joined = 'FROM run r JOIN deployment d ON d.id = r.deployment_id JOIN app a ON a.id = r.app_id'

type Row = Omit<Run, 'sessions'>

const runById = statement<Row>('runs.byId', `SELECT ${columns} ${joined} WHERE r.id = $1`)
const runOfApp = statement<Row>(
  'runs.ofApp',
  `SELECT ${columns} ${joined} WHERE r.id = $3 AND r.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'`,
)
const runsOfApp = statement<Row>(
  'runs.listOfApp',
  `SELECT ${columns} ${joined} WHERE r.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'
   ORDER BY r.id DESC LIMIT 1000`,
)
const releaseOf = statement<Pick<Run, 'id' | 'outcome' | 'error'>>(
  'runs.releaseOf',
  `SELECT id, outcome, error FROM run WHERE deployment_id = $1 AND purpose = 'release' ORDER BY id DESC LIMIT 1`,
)
const sessionsIn = statement<SessionsOfRun>(
  'runs.sessions',
  `SELECT count(*) FILTER (WHERE ended_at IS NULL)::int AS open, max(ended_at) AS "lastEndedAt",
     (array_agg(CASE outcome WHEN 'exited' THEN code WHEN 'signaled' THEN 128 + code END ORDER BY ended_at DESC)
        FILTER (WHERE ended_at IS NOT NULL))[1] AS "lastCode"
   FROM vm_session WHERE deployment_id = $1 AND vm_id = $2`,
)
const insertRun = statement(
  'runs.insert',
  `INSERT INTO run (id, project_id, app_id, deployment_id, account_id, purpose, command, timeout_seconds, job_id, due_at, attempt)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
)
const countOpen = statement<{ count: number }>(
  'runs.countOpen',
  `SELECT count(*)::int AS count FROM run WHERE project_id = $1 AND ended_at IS NULL`,
)
const setStarted = statement('runs.started', `UPDATE run SET started_at = coalesce(started_at, now()) WHERE id = $1`)
const setOutcome = statement(
  'runs.outcome',
  `UPDATE run SET outcome = $2, exit_code = $3, error = $4, log = $5 WHERE id = $1 AND outcome IS NULL`,
)
const setEnded = statement(
  'runs.ended',
  `UPDATE run SET outcome = coalesce(outcome, 'cancelled'), ended_at = coalesce(ended_at, now()) WHERE id = $1`,
)
const cancelRun = statement('runs.cancel', `UPDATE run SET want = 'cancelled' WHERE id = $1 AND ended_at IS NULL`)
const openOfDeployment = statement<{ id: string }>(
  'runs.openOfDeployment',
  `SELECT id FROM run WHERE deployment_id = $1 AND ended_at IS NULL`,
)
const openReleaseOf = statement<{ id: string }>(
  'runs.openReleaseOf',
  `SELECT id FROM run WHERE deployment_id = $1 AND purpose = 'release' AND ended_at IS NULL AND want = 'finished'`,
)
const deleteOld = statement('runs.deleteOld', `DELETE FROM run WHERE ended_at < $1`)
const vmOfRun = statement<{ id: string }>(
  'runs.vmOfDeployment',
  `SELECT id FROM vm WHERE id = $2 AND deployment_id = $1 AND run_id IS NOT NULL AND want <> 'absent'`,
)

const none: SessionsOfRun = { open: 0, lastEndedAt: null, lastCode: null }

export async function byId(sql: Sql, id: string): Promise<Run | undefined> {
  const row = await sql.maybe(runById, [id])
  if (!row) return undefined
  const waits = row.command === null && row.vm !== null
  return { ...row, sessions: waits && row.vm ? await sql.one(sessionsIn, [row.deploymentId, row.vm.id]) : none }
}
export const inApp = (sql: Sql, projectId: string, appName: string, id: string) =>
  sql.maybe(runOfApp, [projectId, appName, id])
export const ofApp = (sql: Sql, projectId: string, appName: string) => sql.rows(runsOfApp, [projectId, appName])
/** Returns the run of a deployment's release command, if it has one. */
export const release = (sql: Sql, deploymentId: string) => sql.maybe(releaseOf, [deploymentId])

export const insert = (
  tx: Tx,
  run: Pick<
    Run,
    'id' | 'projectId' | 'appId' | 'deploymentId' | 'accountId' | 'purpose' | 'command' | 'timeoutSeconds'
  > & { readonly job?: JobOfRun },
) =>
  tx.run(insertRun, [
    run.id,
    run.projectId,
    run.appId,
    run.deploymentId,
    run.accountId,
    run.purpose,
    run.command,
    run.timeoutSeconds,
    run.job?.id ?? null,
    run.job?.dueAt ?? null,
    run.job?.attempt ?? 1,
  ])
export const openInProject = async (sql: Sql, projectId: string) => (await sql.one(countOpen, [projectId])).count
export const started = (tx: Tx, id: string) => tx.run(setStarted, [id])
export const decide = (
  tx: Tx,
  id: string,
  end: {
    readonly outcome: Outcome
    readonly exitCode: number | null
    readonly error: string | null
    readonly log: string | null
  },
) => tx.run(setOutcome, [id, end.outcome, end.exitCode, end.error, end.log])
export const ended = (tx: Tx, id: string) => tx.run(setEnded, [id])
export const cancel = (tx: Tx, id: string) => tx.run(cancelRun, [id])
export const openIds = async (sql: Sql, deploymentId: string) =>
  (await sql.rows(openOfDeployment, [deploymentId])).map(row => row.id)
export const openReleases = async (sql: Sql, deploymentId: string) =>
  (await sql.rows(openReleaseOf, [deploymentId])).map(row => row.id)
export const removeOld = (sql: Sql, before: Date) => sql.run(deleteOld, [before])
/** Returns whether the VM belongs to a run of the deployment. */
export const isRunVm = async (sql: Sql, deploymentId: string, vmId: string) =>
  (await sql.maybe(vmOfRun, [deploymentId, vmId])) !== undefined
