import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface EnvEntry {
  readonly name: string
  readonly updatedAt: Date
}

const listEnv = statement<EnvEntry>(
  'apps.env',
  `SELECT name, updated_at AS "updatedAt" FROM app_env WHERE app_id = $1 ORDER BY name`,
)
const putEnv = statement(
  'apps.putEnv',
  `INSERT INTO app_env (app_id, name, value) VALUES ($1, $2, $3)
   ON CONFLICT (app_id, name) DO UPDATE SET value = excluded.value, updated_at = now()`,
)
const deleteEnv = statement('apps.deleteEnv', `DELETE FROM app_env WHERE app_id = $1 AND name = $2`)
const sizeOfEnv = statement<{ names: number; bytes: number }>(
  'apps.sizeOfEnv',
  `SELECT count(*)::int AS names, coalesce(sum(length(value) + length(name)), 0)::int AS bytes FROM app_env WHERE app_id = $1`,
)

/** Returns names only: stored values are never shown again. */
export const list = (sql: Sql, appId: string) => sql.rows(listEnv, [appId])
/** @param sealed by the vault, purpose `app.env` */
export const put = (tx: Tx, appId: string, name: string, sealed: Buffer) => tx.run(putEnv, [appId, name, sealed])
/** Returns false when the variable does not exist. */
export const remove = async (tx: Tx, appId: string, name: string) => (await tx.run(deleteEnv, [appId, name])) === 1
export const size = (tx: Tx, appId: string) => tx.one(sizeOfEnv, [appId])
