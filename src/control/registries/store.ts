import { type Sql, type Tx, statement } from '../../db/db.ts'

/**
 * A project's credential for one registry. The secret is encrypted (purpose `registry.credential`) and never listed.
 */
export interface RegistryCredentialRow {
  /** Host of the registry, as `registryHost` returns it. The credential is sent to no other host. */
  readonly host: string
  readonly username: string
  readonly updatedAt: Date
}

const columns = `host, username, updated_at AS "updatedAt"`
const allOfProject = statement<RegistryCredentialRow>(
  'registries.credentials',
  `SELECT ${columns} FROM registry_credential WHERE project_id = $1 ORDER BY host`,
)
const putOne = statement<RegistryCredentialRow>(
  'registries.putCredential',
  `INSERT INTO registry_credential (project_id, host, username, secret) VALUES ($1, $2, $3, $4)
   ON CONFLICT (project_id, host) DO UPDATE SET username = excluded.username, secret = excluded.secret, updated_at = now()
   RETURNING ${columns}`,
)
const removeOne = statement(
  'registries.removeCredential',
  `DELETE FROM registry_credential WHERE project_id = $1 AND host = $2`,
)
const sealedOfProject = statement<{ username: string; secret: Buffer }>(
  'registries.sealedCredential',
  `SELECT username, secret FROM registry_credential WHERE project_id = $1 AND host = $2`,
)
// The target host of a migration may pull the image, too, because it must have the image before the VM belongs to it.
const pulledBy = statement<{ projectId: string; slug: string; appId: string; image: string }>(
  'registries.vmOnHost',
  `SELECT v.project_id AS "projectId", p.slug, v.app_id AS "appId", d.image FROM vm v JOIN deployment d ON d.id = v.deployment_id
   JOIN project p ON p.id = v.project_id
   WHERE v.id = $1 AND v.want <> 'absent' AND (v.host_id = $2 OR EXISTS (
     SELECT FROM migration m WHERE m.vm_id = v.id AND m.target_host_id = $2 AND m.ended_at IS NULL))`,
)

// Returns a build only while it holds resources on the host, so that the host cannot get credentials afterwards.
const builtBy = statement<{ projectId: string; slug: string; appId: string; image: null }>(
  'registries.buildOnHost',
  `SELECT b.project_id AS "projectId", p.slug, b.app_id AS "appId", NULL AS image FROM build b JOIN project p ON p.id = b.project_id
   WHERE b.id = $1 AND b.host_id = $2 AND b.holds`,
)

const appOfProject = statement<{ ok: boolean }>(
  'registries.isAppOf',
  `SELECT EXISTS (SELECT FROM app WHERE id = $1 AND project_id = $2) AS ok`,
)

export const credentialsOf = (sql: Sql, projectId: string) => sql.rows(allOfProject, [projectId])
export const putCredential = (
  tx: Tx,
  projectId: string,
  one: { readonly host: string; readonly username: string; readonly secret: Buffer },
) => tx.one(putOne, [projectId, one.host, one.username, one.secret])
/** Deletes a credential. Returns false if there was none. */
export const removeCredential = async (tx: Tx, projectId: string, host: string) =>
  (await tx.run(removeOne, [projectId, host])) === 1
export const sealedCredential = (sql: Sql, projectId: string, host: string) =>
  sql.maybe(sealedOfProject, [projectId, host])
export const isAppOf = async (sql: Sql, appId: string, projectId: string) =>
  (await sql.one(appOfProject, [appId, projectId])).ok
/** Returns the image and project of a VM, if the host may pull the image for it. */
export const vmOnHost = (sql: Sql, vmId: string, hostId: string) => sql.maybe(pulledBy, [vmId, hostId])
/** Returns the project and app of a build, if the build runs on the host. */
export const buildOnHost = (sql: Sql, buildId: string, hostId: string) => sql.maybe(builtBy, [buildId, hostId])
