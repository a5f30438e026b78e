import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { SourceApp } from '../builds/index.ts'

const insertDelivery = statement(
  'scm.insertDelivery',
  `INSERT INTO scm_delivery (source, id, event) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
)
const forgetDeliveries = statement('scm.forgetDeliveries', `DELETE FROM scm_delivery WHERE received_at < $1`)
const forgetStates = statement('scm.forgetStates', `DELETE FROM scm_state WHERE used_at < $1`)

/** An app that git hosts can deliver events to. */
export interface ScmApp extends SourceApp {
  readonly projectId: string
  readonly projectSlug: string
  readonly healthCheckPath: string
  readonly kind: 'web' | 'worker'
  readonly command: readonly string[]
  readonly arguments: readonly string[]
}
const appColumns = `a.id, a.name, a.port, a.desired_replicas AS "desiredReplicas", a.git_url AS "gitUrl",
  a.git_branch AS "gitBranch", a.git_submodules AS "gitSubmodules",
  a.scm_installation_id AS "scmInstallationId", a.project_id AS "projectId", p.slug AS "projectSlug",
  a.health_check_path AS "healthCheckPath", a.kind, a.command, a.arguments`
const lockApp = statement<ScmApp>(
  'scm.lockApp',
  `SELECT ${appColumns} FROM app a JOIN project p ON p.id = a.project_id WHERE a.id = $1 AND a.want = 'live' FOR UPDATE OF a`,
)
const appsOfRepository = statement<{ id: string }>(
  'scm.appsOfRepository',
  `SELECT id FROM app WHERE scm_repo_id = $1 AND want = 'live' ORDER BY id`,
)
export interface AppSecret {
  readonly id: string
  /** Encrypted. */
  readonly secret: Buffer
}
const secretOfApp = statement<AppSecret>(
  'scm.secretOfApp',
  `SELECT id, scm_webhook_secret AS secret FROM app WHERE id = $1 AND want = 'live'`,
)
/**
 * Finds the apps with a name, for deliveries that address an app by name. Names are unique only within a project, so
 * the caller tries each app's secret. The first apps of all accounts come before the second apps of all accounts, so
 * that an account with many projects cannot exclude the others.
 */
const secretsOfName = statement<AppSecret>(
  'scm.secretsOfName',
  `SELECT id, secret FROM (
     SELECT a.id, a.scm_webhook_secret AS secret, row_number() OVER (PARTITION BY o.account_id ORDER BY a.id) AS turn
     FROM app a CROSS JOIN LATERAL (SELECT m.account_id FROM project_member m WHERE m.project_id = a.project_id
       AND m.role = 'owner' ORDER BY m.created_at, m.account_id LIMIT 1) o
     WHERE a.name = $1 AND a.want = 'live') named
   ORDER BY turn, id LIMIT $2`,
)
const putPush = statement(
  'scm.putPush',
  `INSERT INTO scm_push AS s (app_id, branch, pushed_at, commit_hash) VALUES ($1, $2, $3, $4)
   ON CONFLICT (app_id, branch) DO UPDATE SET pushed_at = excluded.pushed_at,
     commit_hash = CASE WHEN s.pushed_at = excluded.pushed_at THEN greatest(s.commit_hash, excluded.commit_hash)
                        ELSE excluded.commit_hash END
   WHERE s.pushed_at <= excluded.pushed_at`,
)
const lastPush = statement<{ pushedAt: Date; commit: string }>(
  'scm.lastPush',
  `SELECT pushed_at AS "pushedAt", commit_hash AS commit FROM scm_push WHERE app_id = $1 AND branch = $2`,
)
/** A later event does not restore a deleted installation, because the source host does not reuse ids. */
const putInstallation = statement(
  'scm.putInstallation',
  `INSERT INTO scm_installation AS i (id, login, account_type, avatar_url, state, changed_at) VALUES ($1, $2, $3, $4, $5, $6)
   ON CONFLICT (id) DO UPDATE SET login = excluded.login, account_type = excluded.account_type,
     avatar_url = excluded.avatar_url, state = excluded.state, changed_at = excluded.changed_at
   WHERE i.state <> 'deleted' AND (excluded.state = 'deleted' OR (i.changed_at, i.state) < (excluded.changed_at, excluded.state))`,
)
const putRepository = statement(
  'scm.putRepository',
  `INSERT INTO scm_repository AS r (id, full_name, is_deleted, changed_at) VALUES ($1, $2, $3, $4)
   ON CONFLICT (id) DO UPDATE SET full_name = excluded.full_name, is_deleted = excluded.is_deleted, changed_at = excluded.changed_at
   WHERE NOT r.is_deleted AND (excluded.is_deleted OR (r.changed_at, r.full_name) < (excluded.changed_at, excluded.full_name))`,
)
const renameApps = statement(
  'scm.renameApps',
  `UPDATE app SET scm_repo_full_name = $2, git_url = $3 WHERE scm_repo_id = $1 AND want = 'live'
     AND (scm_repo_full_name, git_url) IS DISTINCT FROM ($2, $3)`,
)
const putPreview = statement(
  'scm.putPreview',
  `INSERT INTO scm_preview AS v (app_id, number, state, changed_at) VALUES ($1, $2, $3, $4)
   ON CONFLICT (app_id, number) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at
   WHERE v.changed_at < excluded.changed_at OR (v.changed_at = excluded.changed_at AND v.state > excluded.state)`,
)
const previewApp = statement<{ id: string | null }>(
  'scm.previewApp',
  `SELECT a.id FROM scm_preview v LEFT JOIN app a ON a.id = v.preview_app_id AND a.want = 'live'
   WHERE v.app_id = $1 AND v.number = $2`,
)
const setPreviewApp = statement(
  'scm.setPreviewApp',
  `UPDATE scm_preview SET preview_app_id = $3 WHERE app_id = $1 AND number = $2`,
)
const copyEnv = statement(
  'scm.copyEnv',
  `INSERT INTO app_env (app_id, name, value, updated_at, plain_at)
   SELECT $2, name, value, now(), CASE WHEN plain_at = updated_at THEN now() END FROM app_env WHERE app_id = $1
   ON CONFLICT DO NOTHING`,
)
const copyGroups = statement(
  'scm.copyGroups',
  `INSERT INTO app_env_group (app_id, group_id, position)
   SELECT $2, group_id, position FROM app_env_group WHERE app_id = $1 ON CONFLICT DO NOTHING`,
)
const copyFiles = statement(
  'scm.copyFiles',
  `INSERT INTO app_file (app_id, path, mode, content, variable, size_bytes, sha256)
   SELECT $2, path, mode, content, variable, size_bytes, sha256 FROM app_file WHERE app_id = $1 ON CONFLICT DO NOTHING`,
)
const copySettings = statement(
  'scm.copySettings',
  `UPDATE app SET (build, hosts) = (SELECT build, hosts FROM app parent WHERE parent.id = $1) WHERE id = $2`,
)
const orphanPreviews = statement<{ id: string }>(
  'scm.orphanPreviews',
  `SELECT a.id FROM scm_preview v JOIN app a ON a.id = v.preview_app_id JOIN app parent ON parent.id = v.app_id
   WHERE a.want = 'live' AND (v.state = 'closed' OR parent.want = 'deleted')`,
)
const bind = statement(
  'scm.bind',
  `INSERT INTO scm_binding (installation_id, project_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
)
const installationsOf = statement<Installation>(
  'scm.installationsOf',
  `SELECT i.id, i.login, i.account_type AS "accountType", i.avatar_url AS "avatarUrl", i.state
   FROM scm_binding b JOIN scm_installation i ON i.id = b.installation_id
   WHERE b.project_id = $1 AND i.state <> 'deleted' ORDER BY i.login, i.id`,
)
const mayUse = statement<{ ok: boolean }>(
  'scm.mayUse',
  `SELECT EXISTS (SELECT FROM scm_binding b JOIN scm_installation i ON i.id = b.installation_id
     WHERE b.project_id = $1 AND b.installation_id = $2 AND i.state = 'active') AS ok`,
)
const useState = statement('scm.useState', `INSERT INTO scm_state (id) VALUES ($1) ON CONFLICT DO NOTHING`)

export interface Installation {
  readonly id: number
  readonly login: string
  readonly accountType: string
  readonly avatarUrl: string | null
  readonly state: 'active' | 'suspended' | 'deleted'
}

/** Records the delivery. Returns false if it was already recorded, and therefore applied. */
export const recordDelivery = async (tx: Tx, source: string, id: string, event: string) =>
  (await tx.run(insertDelivery, [source, id, event])) === 1
export const forgetBefore = async (sql: Sql, before: Date) =>
  (await sql.run(forgetDeliveries, [before])) + (await sql.run(forgetStates, [before]))
export const lock = (tx: Tx, appId: string) => tx.maybe(lockApp, [appId])
export const appsWith = async (sql: Sql, repoId: number) =>
  (await sql.rows(appsOfRepository, [repoId])).map(row => row.id)
export const secretOf = (sql: Sql, appId: string) => sql.maybe(secretOfApp, [appId])
export const secrets = (sql: Sql, appName: string, limit: number) => sql.rows(secretsOfName, [appName, limit])
export const pushOf = (tx: Tx, appId: string, branch: string) => tx.maybe(lastPush, [appId, branch])
/** Records the push. Returns false if a newer push to the branch has already been recorded. */
export const recordPush = async (tx: Tx, appId: string, branch: string, at: Date, commit: string) =>
  (await tx.run(putPush, [appId, branch, at, commit])) === 1
export const recordInstallation = async (
  tx: Tx,
  { id, login, accountType, avatarUrl, state, changedAt }: Installation & { readonly changedAt: Date },
) => (await tx.run(putInstallation, [id, login, accountType, avatarUrl, state, changedAt])) === 1
export const recordRepository = async (tx: Tx, id: number, fullName: string, isDeleted: boolean, at: Date) =>
  (await tx.run(putRepository, [id, fullName, isDeleted, at])) === 1
export const rename = (tx: Tx, repoId: number, fullName: string, cloneUrl: string) =>
  tx.run(renameApps, [repoId, fullName, cloneUrl])
export const recordPreview = async (tx: Tx, appId: string, number: number, state: 'open' | 'closed', at: Date) =>
  (await tx.run(putPreview, [appId, number, state, at])) === 1
/** Returns the pull request's preview app, if there is one. */
export const previewOf = async (tx: Tx, appId: string, number: number) =>
  (await tx.maybe(previewApp, [appId, number]))?.id ?? undefined
export const keepPreview = (tx: Tx, appId: string, number: number, previewAppId: string) =>
  tx.run(setPreviewApp, [appId, number, previewAppId])
export async function copyEnvironment(tx: Tx, from: string, to: string): Promise<void> {
  await Promise.all([copyEnv, copyGroups, copyFiles, copySettings].map(one => tx.run(one, [from, to])))
}
export const leftOver = async (sql: Sql) => (await sql.rows(orphanPreviews)).map(row => row.id)
export const bindTo = async (tx: Tx, installationId: number, projectId: string) =>
  (await tx.run(bind, [installationId, projectId])) === 1
export const installations = (sql: Sql, projectId: string) => sql.rows(installationsOf, [projectId])
export const allowed = async (sql: Sql, projectId: string, installationId: number) =>
  (await sql.one(mayUse, [projectId, installationId])).ok
/** Marks a state or confirmation as used. Returns false if it was already used. */
export const spend = async (tx: Tx, stateId: string) => (await tx.run(useState, [stateId])) === 1
