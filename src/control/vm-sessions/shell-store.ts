/** Statements that find the app which an SSH user name refers to. */
import { type Sql, statement } from '../../db/db.ts'

export interface NamedApp {
  readonly appId: string
  readonly projectId: string
  readonly projectSlug: string
}

const limit = 20
const appsOfKey = statement<NamedApp & { keyId: string; accountId: string }>(
  'vmSessions.appsOfKey',
  `SELECT k.id AS "keyId", k.account_id AS "accountId", a.id AS "appId", p.id AS "projectId", p.slug AS "projectSlug"
   FROM ssh_key k JOIN project_member m ON m.account_id = k.account_id AND m.role <> 'viewer'
   JOIN project p ON p.id = m.project_id
   JOIN app a ON a.project_id = p.id AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'
   WHERE k.fingerprint = $1 AND ($3::text IS NULL OR p.slug = $3) ORDER BY k.id, p.id LIMIT ${limit}`,
)
const appsOfAccount = statement<NamedApp>(
  'vmSessions.appsOfAccount',
  `SELECT a.id AS "appId", p.id AS "projectId", p.slug AS "projectSlug"
   FROM project_member m JOIN project p ON p.id = m.project_id
   JOIN app a ON a.project_id = p.id AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'
   WHERE m.account_id = $1 AND m.role <> 'viewer' AND ($3::text IS NULL OR p.slug = $3) ORDER BY p.id LIMIT ${limit}`,
)
const appInProject = statement<{ projectSlug: string }>(
  'vmSessions.appInProject',
  `SELECT p.slug AS "projectSlug" FROM app a JOIN project p ON p.id = a.project_id
   WHERE a.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'`,
)
const appAndActive = statement<{ name: string; projectId: string; activeId: string | null }>(
  'vmSessions.appAndActive',
  `SELECT name, project_id AS "projectId", active_deployment_id AS "activeId" FROM app WHERE id = $1 AND want = 'live'`,
)

export const ofKey = (sql: Sql, fingerprint: string, app: string, project: string | null) =>
  sql.rows(appsOfKey, [fingerprint, app, project])
export const ofAccount = (sql: Sql, accountId: string, app: string, project: string | null) =>
  sql.rows(appsOfAccount, [accountId, app, project])
export const active = (sql: Sql, appId: string) => sql.maybe(appAndActive, [appId])
export const inProject = (sql: Sql, projectId: string, app: string) => sql.rows(appInProject, [projectId, app])
