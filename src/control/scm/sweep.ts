import { statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { hours, seconds } from '../../lib/duration.ts'
import { startDeletingApp } from '../apps/index.ts'
import type { Deps } from '../base/deps.ts'
import type { CommitStatus, SourceHost } from './provider.ts'
import { forgetEffectsBefore } from './effect-store.ts'
import * as store from './store.ts'

/**
 * The sweep that deletes records of deliveries after 30 days (git hosts repeat deliveries for some days at most), and
 * previews whose pull request is closed or whose original app is deleted.
 */
export const scmUpkeep = (deps: Pick<Deps, 'db'>): Sweep => ({
  name: 'scm-upkeep',
  everyMs: hours(1),
  async run({ now }) {
    const before = new Date(now.getTime() - hours(24 * 30))
    const deliveries = (await store.forgetBefore(deps.db, before)) + (await forgetEffectsBefore(deps.db, before))
    const previews = await store.leftOver(deps.db)
    for (const id of previews) await deps.db.tx(tx => startDeletingApp(tx, id))
    return { deliveries, previews: previews.length }
  },
})

interface DueReport {
  readonly deploymentId: string
  readonly installationId: number
  readonly fullName: string
  readonly commit: string
  readonly appName: string
  readonly jobId: string
  readonly state: CommitStatus['state']
  readonly error: string | null
  readonly tries: number
}

const mostTries = 10
// Deployments whose status differs from the last status (`told`) that the source host got.
const dueReports = statement<DueReport>(
  'scm.dueReports',
  `SELECT * FROM (
     SELECT d.id AS "deploymentId", a.scm_installation_id AS "installationId", a.scm_repo_full_name AS "fullName",
       d.git_commit_hash AS commit, a.name AS "appName", d.job_id AS "jobId", d.error_message AS error,
       CASE WHEN d.started_at IS NOT NULL THEN 'success' WHEN d.outcome = 'failed' THEN 'failure'
            WHEN d.outcome IS NOT NULL THEN 'error' ELSE 'pending' END AS state,
       coalesce(r.tries, 0) AS tries, r.told, coalesce(r.due_at, now()) AS due
     FROM deployment d JOIN app a ON a.id = d.app_id
       JOIN scm_binding b ON b.installation_id = a.scm_installation_id AND b.project_id = a.project_id
       LEFT JOIN scm_report r ON r.deployment_id = d.id
     WHERE a.scm_repo_full_name IS NOT NULL AND d.git_commit_hash <> '' AND d.build_id <> ''
       AND d.updated_at > now() - interval '1 day') due
   WHERE told IS DISTINCT FROM state AND due <= now() AND tries < ${mostTries} ORDER BY "deploymentId" DESC LIMIT 20`,
)
const noteReport = statement(
  'scm.noteReport',
  `INSERT INTO scm_report AS r (deployment_id, told, tries, due_at) VALUES ($1, $2, $3, $4)
   ON CONFLICT (deployment_id) DO UPDATE SET told = coalesce(excluded.told, r.told), tries = excluded.tries, due_at = excluded.due_at`,
)

/**
 * Reports the deployment status of commits to the source host. If the host is down, reports are retried later without
 * delaying other work.
 */
export const scmReports = (deps: Pick<Deps, 'db' | 'config' | 'log'>, host: SourceHost | undefined): Sweep => ({
  name: 'scm-reports',
  everyMs: seconds(5),
  async run({ now }) {
    if (!host) return { reported: 0, failed: 0 }
    let reported = 0
    let failed = 0
    for (const due of await deps.db.rows(dueReports)) {
      const tries = due.tries + 1
      try {
        await host.report(due.installationId, statusOf(due, deps.config.publicUrl))
        await deps.db.run(noteReport, [due.deploymentId, due.state, 0, now])
        reported += 1
      } catch (err) {
        const later = new Date(now.getTime() + backoffMs(tries, Math.random(), { baseMs: seconds(5), capMs: hours(1) }))
        await deps.db.run(noteReport, [due.deploymentId, null, tries, later])
        // Log only the message, because the library's error object contains the whole request.
        const reason = err instanceof Error ? err.message : String(err)
        deps.log.warn({ reason, deploymentId: due.deploymentId, tries }, 'could not report a status to the source host')
        failed += 1
      }
    }
    return { reported, failed }
  },
})

const said = {
  pending: 'Deployment in progress',
  success: 'Deployed',
  failure: 'Deployment failed',
  error: 'Deployment was replaced or stopped',
} as const

function statusOf(due: DueReport, publicUrl: string): CommitStatus {
  const { fullName, commit, state, appName, jobId } = due
  return {
    fullName,
    commit,
    state,
    context: `mote/${appName}`,
    // GitHub accepts descriptions of at most 140 characters.
    description: (due.error?.split('\n')[0] ?? said[state]).slice(0, 140),
    url: `${publicUrl}/apps/${appName}/deployments/${jobId}`,
  }
}
