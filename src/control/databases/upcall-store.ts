import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface Tenant {
  readonly id: string
  readonly gen: number
}

// Generations are raised and read in one statement, so that the committed values are returned even if other calls raise
// generations concurrently.
const raiseGenerations = statement<Tenant>(
  'databases.raiseGenerations',
  `UPDATE database SET tenant_gen = tenant_gen + 1 WHERE storage_node = $1 AND want <> 'deleted'
   RETURNING tenant_id AS id, tenant_gen AS gen`,
)
const currentGenerations = statement<Tenant>(
  'databases.generations',
  `SELECT tenant_id AS id, tenant_gen AS gen FROM database WHERE tenant_id = ANY($1::text[]) AND want <> 'deleted'`,
)

/** Raises the generation of every tenant attached to the page server. */
export const raise = (tx: Tx, node: number) => tx.rows(raiseGenerations, [node])
/** Returns the committed generations of those tenants that exist. */
export const generations = (sql: Sql, tenantIds: readonly string[]) => sql.rows(currentGenerations, [tenantIds])
