import { type Sql, type Tx, statement } from '../../db/db.ts'
import { variablesOf } from '../base/variables.ts'

export interface FileEntry {
  readonly path: string
  readonly mode: number
  /** Name of the variable whose value is the file's content; null: the file has its own content. */
  readonly variable: string | null
  /** Size of the file's own content; 0 if its content is the value of a variable. */
  readonly sizeBytes: number
  /** Hash of the file's content; null for a secret. */
  readonly sha256: string | null
  readonly updatedAt: Date
}

const columns = `path, mode, variable, size_bytes AS "sizeBytes", sha256, updated_at AS "updatedAt"`
const listFiles = statement<FileEntry>('apps.files', `SELECT ${columns} FROM app_file WHERE app_id = $1 ORDER BY path`)
const oneFile = statement<FileEntry & { readonly content: Buffer | null }>(
  'apps.file',
  `SELECT ${columns}, CASE WHEN sha256 IS NOT NULL THEN content END AS content FROM app_file WHERE app_id = $1 AND path = $2`,
)
const putFile = statement(
  'apps.putFile',
  `INSERT INTO app_file (app_id, path, mode, content, variable, size_bytes, sha256) VALUES ($1, $2, $3, $4, $5, $6, $7)
   ON CONFLICT (app_id, path) DO UPDATE SET mode = excluded.mode, content = excluded.content, variable = excluded.variable,
     size_bytes = excluded.size_bytes, sha256 = excluded.sha256, updated_at = now()`,
)
const deleteFile = statement('apps.deleteFile', `DELETE FROM app_file WHERE app_id = $1 AND path = $2`)
const hasVariable = statement<{ ok: boolean }>(
  'apps.hasVariable',
  `SELECT EXISTS (SELECT FROM ${variablesOf('$1')} every WHERE name = $2) AS ok`,
)

export interface NewFile {
  readonly path: string
  readonly mode: number
  /** Content in base64, encrypted for the purpose `app.file`. */
  readonly sealed: Buffer | null
  readonly variable: string | null
  readonly sizeBytes: number
  readonly sha256: string | null
}

export const list = (sql: Sql, appId: string) => sql.rows(listFiles, [appId])
/** Returns a file of the app, without its content if it is a secret. */
export const one = (sql: Sql, appId: string, path: string) => sql.maybe(oneFile, [appId, path])
export const put = (tx: Tx, appId: string, file: NewFile) =>
  tx.run(putFile, [appId, file.path, file.mode, file.sealed, file.variable, file.sizeBytes, file.sha256])
/** Deletes a file of the app. Returns false when there is no such file. */
export const remove = async (tx: Tx, appId: string, path: string) => (await tx.run(deleteFile, [appId, path])) === 1
export const knowsVariable = async (tx: Tx, appId: string, name: string) =>
  (await tx.one(hasVariable, [appId, name])).ok
