import { type Sql, statement } from '../../db/db.ts'

export interface TunnelTarget {
  readonly branchId: string
  readonly databaseId: string
  readonly databaseName: string
  readonly branchName: string
  readonly isCurrent: boolean
  readonly projectId: string
  readonly projectSlug: string
}

// Finds the branch to which a tunnel leads, by its own id or by the id of the database whose current branch it is.
const targetOf = statement<TunnelTarget>(
  'databases.tunnelTarget',
  `SELECT b.id AS "branchId", d.id AS "databaseId", d.name AS "databaseName", b.name AS "branchName",
     b.is_current AS "isCurrent", d.project_id AS "projectId", p.slug AS "projectSlug"
   FROM branch b JOIN database d ON d.id = b.database_id JOIN project p ON p.id = d.project_id
   WHERE (b.id = $1 OR (d.id = $1 AND b.is_current)) AND b.kind = 'user' AND b.want = 'live' AND d.want <> 'deleted'`,
)
export const target = (sql: Sql, id: string) => sql.maybe(targetOf, [id])
