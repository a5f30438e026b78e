/** Lists every column with values that the vault encrypted ("sealed"), and encrypts them again with a new key. */
import { type Db, type Param, statement } from '../../db/db.ts'
import type { Vault } from '../../lib/vault.ts'
import { mailBodyPurpose } from '../notifications/index.ts'
import { answerPurpose } from './idempotency.ts'
import { purposes } from './credentials.ts'

interface SealedColumn {
  readonly table: string
  readonly column: string
  /** Names of the primary key columns, with their types. */
  readonly key: Readonly<Record<string, 'uuid' | 'text'>>
  /** Purpose under which the vault encrypts the value. */
  readonly purpose: string
}

/** `sealed.test.ts` fails if this list lacks a column with encrypted values. */
export const sealedColumns: readonly SealedColumn[] = [
  { table: 'account', column: 'totp_secret', key: { id: 'uuid' }, purpose: purposes.totpSecret },
  { table: 'idempotency_key', column: 'answer', key: { account_id: 'uuid', key: 'text' }, purpose: answerPurpose },
  { table: 'app', column: 'scm_webhook_secret', key: { id: 'uuid' }, purpose: 'app.webhook' },
  { table: 'acme_account', column: 'key', key: { directory: 'text' }, purpose: 'acme.account' },
  { table: 'certificate', column: 'private_key', key: { domain_id: 'uuid' }, purpose: 'certificate.key' },
  { table: 'git_credential', column: 'secret', key: { app_id: 'uuid' }, purpose: 'git.credential' },
  {
    table: 'registry_credential',
    column: 'secret',
    key: { project_id: 'uuid', host: 'text' },
    purpose: 'registry.credential',
  },
  { table: 'app_env', column: 'value', key: { app_id: 'uuid', name: 'text' }, purpose: 'app.env' },
  { table: 'database', column: 'password', key: { id: 'uuid' }, purpose: 'database.password' },
  { table: 'database', column: 'backup_target', key: { id: 'uuid' }, purpose: 'database.backup_target' },
  { table: 'volume', column: 'key', key: { id: 'uuid' }, purpose: 'volume.key' },
  { table: 'outgoing_mail', column: 'body', key: { id: 'uuid' }, purpose: mailBodyPurpose },
  { table: 'deployment_env', column: 'value', key: { deployment_id: 'uuid', name: 'text' }, purpose: 'app.env' },
  { table: 'env_group_value', column: 'value', key: { group_id: 'uuid', name: 'text' }, purpose: 'app.env' },
  { table: 'env_version_value', column: 'value', key: { version_id: 'uuid', name: 'text' }, purpose: 'app.env' },
  { table: 'app_file', column: 'content', key: { app_id: 'uuid', path: 'text' }, purpose: 'app.file' },
  { table: 'deployment_file', column: 'content', key: { deployment_id: 'uuid', path: 'text' }, purpose: 'app.file' },
]

export interface ResealCount {
  /** Table and column of the encrypted values, as `table.column`. */
  readonly column: string
  /** Number of values encrypted again with the current key. */
  readonly resealed: number
  /** Number of values already encrypted with the current key. */
  readonly current: number
  /** Number of values that were left unchanged, because they are damaged or their key is not configured. */
  readonly unreadable: number
}

/**
 * Encrypts all values with the newest key, which must already be the first configured one. It is safe to repeat, and to
 * run while the installation is in use, because a value is replaced only if it is unchanged since it was read.
 */
export async function resealAll(db: Db, vault: Vault): Promise<ResealCount[]> {
  const counts: ResealCount[] = []
  for (const column of sealedColumns) counts.push(await resealColumn(db, vault, column))
  return counts
}

const batch = 500

function statementsOf({ table, column, key }: SealedColumn) {
  const names = Object.keys(key)
  const params = Object.values(key).map((type, i) => `$${i + 1}::${type}`)
  const [from, next] = [`$${names.length + 1}`, `$${names.length + 2}`]
  const row = (items: readonly string[]) => `(${items.join(', ')})`
  return {
    page: statement<{ key: Param[]; box: Buffer }>(
      `sealed.page.${table}.${column}`,
      `SELECT jsonb_build_array(${names.join(', ')}) AS key, ${column} AS box FROM ${table}
       WHERE ${column} IS NOT NULL AND ($1::${Object.values(key)[0]} IS NULL OR ${row(names)} > ${row(params)})
       ORDER BY ${names.join(', ')} LIMIT ${batch}`,
    ),
    replace: statement(
      `sealed.replace.${table}.${column}`,
      `UPDATE ${table} SET ${column} = ${next} WHERE ${row(names)} = ${row(params)} AND ${column} = ${from}`,
    ),
  }
}

async function resealColumn(db: Db, vault: Vault, column: SealedColumn): Promise<ResealCount> {
  const { page, replace } = statementsOf(column)
  const count = { column: `${column.table}.${column.column}`, resealed: 0, current: 0, unreadable: 0 }
  let last: readonly Param[] = Object.keys(column.key).map(() => null)
  for (;;) {
    const rows = await db.rows(page, last)
    for (const { key, box } of rows) {
      last = key
      const fresh = reseal(vault, column.purpose, box)
      if (fresh === 'current' || fresh === 'unreadable') count[fresh]++
      else count.resealed += await db.run(replace, [...key, box, fresh])
    }
    if (rows.length < batch) return count
  }
}

function reseal(vault: Vault, purpose: string, box: Buffer): Buffer | 'current' | 'unreadable' {
  if (vault.isCurrent(box)) return 'current'
  try {
    return vault.seal(purpose, vault.open(purpose, box))
  } catch {
    return 'unreadable'
  }
}
