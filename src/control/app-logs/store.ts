/** Finds the VMs and builds of an app that have log lines, and the hosts that store the lines. */
import { type Sql, statement } from '../../db/db.ts'
import type { LogOrder } from '../../contract/agent.ts'

/** A VM or a build, and a host that stores its log lines. A VM that was moved has one entry for each of its hosts. */
export interface LogSource {
  readonly vmId: string
  readonly deploymentId: string
  readonly hostId: string
}

interface EndedSource extends LogSource {
  readonly createdAt: Date
  readonly endedAt: Date
}

interface Scope {
  readonly appId: string
  /** Deployment to which the search is limited; null: all deployments. */
  readonly deploymentId: string | null
}

const appOfProject = statement<{ id: string }>(
  'appLogs.app',
  `SELECT id FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)
const liveSources = statement<LogSource>(
  'appLogs.live',
  `(SELECT v.id AS "vmId", v.deployment_id AS "deploymentId", v.host_id AS "hostId" FROM vm v
    WHERE v.app_id = $1 AND v.host_id IS NOT NULL AND v.created_at < $2 AND ($4::uuid IS NULL OR v.deployment_id = $4)
    ORDER BY v.id DESC LIMIT 1000)
   UNION ALL
   (SELECT b.id, b.deployment_id, b.host_id FROM build b
    WHERE b.app_id = $1 AND b.host_id IS NOT NULL AND b.created_at < $2 AND (b.ended_at IS NULL OR b.ended_at > $3)
      AND ($4::uuid IS NULL OR b.deployment_id = $4)
    ORDER BY b.id DESC LIMIT 300)`,
)
const ended = (order: string) =>
  `SELECT l.vm_id AS "vmId", l.deployment_id AS "deploymentId", l.host_id AS "hostId", l.created_at AS "createdAt",
     l.ended_at AS "endedAt"
   FROM vm_log l JOIN host h ON h.id = l.host_id AND h.removed_at IS NULL
   WHERE l.app_id = $1 AND l.created_at < $2 AND l.ended_at > $3 AND ($4::uuid IS NULL OR l.deployment_id = $4)
   ORDER BY ${order} LIMIT $5`
const endedSources = {
  newest: statement<EndedSource>('appLogs.endedNewest', ended('l.ended_at DESC, l.vm_id')),
  oldest: statement<EndedSource>('appLogs.endedOldest', ended('l.created_at, l.vm_id')),
} as const
const deploymentOfApp = statement<{ id: string }>(
  'appLogs.deployment',
  `(SELECT id FROM deployment WHERE app_id = $1 AND (job_id = $2 OR id::text = $2))
   UNION ALL (SELECT deployment_id FROM vm_log WHERE app_id = $1 AND (job_id = $2 OR deployment_id::text = $2) LIMIT 1)
   LIMIT 1`,
)
const replicasOfApp = statement<{ id: string }>(
  'appLogs.replicas',
  `SELECT id FROM vm WHERE app_id = $1 AND run_id IS NULL AND want <> 'absent' ORDER BY id LIMIT 999`,
)
const forgettable = statement<{ hostId: string; appId: string }>(
  'appLogs.forgettable',
  `SELECT DISTINCT host_id AS "hostId", app_id AS "appId" FROM vm_log WHERE app_gone LIMIT 1000`,
)
const deleteForgotten = statement(
  'appLogs.forgotten',
  `DELETE FROM vm_log WHERE app_gone AND host_id = $1 AND app_id = ANY($2::uuid[])`,
)
const deleteOld = statement('appLogs.deleteOld', `DELETE FROM vm_log WHERE ended_at < $1`)

/** Maximum number of removed VMs in one log search. */
export const mostEnded = 500
/** Clock difference between hosts and the database that a log search tolerates. */
const skewMs = 60_000

export interface Window {
  readonly sources: readonly LogSource[]
  /**
   * Limit of the time span that is searched with these sources: lines beyond it, in the requested order, may be stored
   * at VMs and builds that are not among `sources`. Undefined: `sources` is complete.
   */
  readonly edgeUs: number | undefined
}

/** Returns the VMs and builds that may have log lines in the time span. */
export async function sourcesIn(
  sql: Sql,
  { appId, deploymentId }: Scope,
  { afterUs, beforeUs, order }: { readonly afterUs: number; readonly beforeUs: number; readonly order: LogOrder },
): Promise<Window> {
  const before = new Date(Math.min(beforeUs / 1000 + skewMs, 8.64e15))
  const after = new Date(afterUs / 1000 - skewMs)
  const [live, ended] = await Promise.all([
    sql.rows(liveSources, [appId, before, after, deploymentId]),
    sql.rows(endedSources[order], [appId, before, after, deploymentId, mostEnded]),
  ])
  const last = ended.length < mostEnded ? undefined : ended.at(-1)
  const edgeMs =
    order === 'newest' ? last && last.endedAt.getTime() + skewMs : last && last.createdAt.getTime() - skewMs
  return { sources: [...live, ...ended], edgeUs: edgeMs && edgeMs * 1000 }
}

export const appOf = (sql: Sql, projectId: string, name: string) => sql.maybe(appOfProject, [projectId, name])
export const deploymentOf = (sql: Sql, appId: string, name: string) => sql.maybe(deploymentOfApp, [appId, name])
export const replicas = async (sql: Sql, appId: string) => (await sql.rows(replicasOfApp, [appId])).map(row => row.id)
export const ofDeletedApps = (sql: Sql) => sql.rows(forgettable, [])
export const forgotten = (sql: Sql, hostId: string, appIds: readonly string[]) =>
  sql.run(deleteForgotten, [hostId, [...appIds]])
export const removeOld = (sql: Sql, before: Date) => sql.run(deleteOld, [before])
