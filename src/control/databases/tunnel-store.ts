import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface TunnelTarget {
  readonly branchId: string
  readonly databaseId: string
  readonly databaseName: string
  readonly branchName: string
  readonly isCurrent: boolean
  readonly projectId: string
  readonly projectSlug: string
}

// Finds the target by the id of the database (its current branch) or of a branch.
const targetOf = statement<TunnelTarget>(
  'databases.tunnelTarget',
  `SELECT b.id AS "branchId", d.id AS "databaseId", d.name AS "databaseName", b.name AS "branchName",
     b.is_current AS "isCurrent", d.project_id AS "projectId", p.slug AS "projectSlug"
   FROM branch b JOIN database d ON d.id = b.database_id JOIN project p ON p.id = d.project_id
   WHERE (b.id = $1 OR (d.id = $1 AND b.is_current)) AND b.kind = 'user' AND b.want = 'live' AND d.want <> 'deleted'`,
)
const keyOfMember = statement<{ keyId: string; accountId: string }>(
  'databases.tunnelKey',
  `SELECT k.id AS "keyId", k.account_id AS "accountId" FROM ssh_key k
   JOIN project_member m ON m.account_id = k.account_id AND m.project_id = $1 AND m.role <> 'viewer'
   WHERE k.fingerprint = $2 LIMIT 1`,
)
const stillGranted = statement<{ granted: boolean }>(
  'databases.tunnelGranted',
  `SELECT EXISTS (SELECT FROM project_member m WHERE m.project_id = $1 AND m.account_id = $2 AND m.role <> 'viewer')
     AND CASE $3::text WHEN 'pat' THEN EXISTS (SELECT FROM pat WHERE id = $4 AND account_id = $2
                                                AND (expires_at IS NULL OR expires_at > now()))
                       WHEN 'session' THEN EXISTS (SELECT FROM session WHERE id = $4 AND account_id = $2 AND revoked_at IS NULL)
                       ELSE EXISTS (SELECT FROM ssh_key WHERE id = $4 AND account_id = $2) END AS granted`,
)
const keyUsed = statement('databases.keyUsed', `UPDATE ssh_key SET last_used_at = now() WHERE id = $1`)

export const target = (sql: Sql, id: string) => sql.maybe(targetOf, [id])
/** Returns a registered key of a member who may write to the project. */
export const keyInProject = (sql: Sql, projectId: string, fingerprint: string) =>
  sql.maybe(keyOfMember, [projectId, fingerprint])
export const isGranted = async (
  sql: Sql,
  grant: {
    readonly projectId: string
    readonly accountId: string
    readonly via: 'pat' | 'key' | 'session'
    readonly viaId: string
  },
) => (await sql.one(stillGranted, [grant.projectId, grant.accountId, grant.via, grant.viaId])).granted
export const useKey = (tx: Tx, id: string) => tx.run(keyUsed, [id])
