import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface EnvEntry {
  readonly name: string
  readonly updatedAt: Date
  /** Encrypted value of a variable that is not a secret; null for a secret, whose value is never returned. */
  readonly plain: Buffer | null
}

const listEnv = statement<EnvEntry>(
  'apps.env',
  `SELECT name, updated_at AS "updatedAt", CASE WHEN plain_at = updated_at THEN value END AS plain FROM app_env WHERE app_id = $1 ORDER BY name`,
)
const putEnv = statement(
  'apps.putEnv',
  `INSERT INTO app_env (app_id, name, value, updated_at, plain_at) VALUES ($1, $2, $3, now(), CASE WHEN $4::boolean THEN now() END)
   ON CONFLICT (app_id, name) DO UPDATE
     SET value = excluded.value, updated_at = excluded.updated_at, plain_at = excluded.plain_at`,
)
const deleteEnv = statement('apps.deleteEnv', `DELETE FROM app_env WHERE app_id = $1 AND name = $2`)

/** Lists the variables of an app, without the values of secrets. */
export const list = (sql: Sql, appId: string) => sql.rows(listEnv, [appId])
export interface NewEntry {
  readonly name: string
  /** The value, encrypted for the purpose `app.env`. */
  readonly sealed: Buffer
  readonly isPlain: boolean
}

export const put = (tx: Tx, appId: string, { name, sealed, isPlain }: NewEntry) =>
  tx.run(putEnv, [appId, name, sealed, isPlain])
/** Deletes a variable of the app. Returns false when the variable does not exist. */
export const remove = async (tx: Tx, appId: string, name: string) => (await tx.run(deleteEnv, [appId, name])) === 1
