import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface SshKeyRow {
  readonly id: string
  readonly name: string
  readonly fingerprint: string
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
}

const columns = `id, name, fingerprint, created_at AS "createdAt", last_used_at AS "lastUsedAt"`
const keysOfAccount = statement<SshKeyRow>(
  'auth.sshKeys',
  `SELECT ${columns} FROM ssh_key WHERE account_id = $1 ORDER BY id DESC`,
)
const insertKey = statement<SshKeyRow>(
  'auth.insertSshKey',
  `INSERT INTO ssh_key (id, account_id, name, public_key, fingerprint) VALUES ($1, $2, $3, $4, $5) RETURNING ${columns}`,
)
const deleteKey = statement<{ name: string }>(
  'auth.deleteSshKey',
  `DELETE FROM ssh_key WHERE id = $1 AND account_id = $2 RETURNING name`,
)

export const sshKeysOf = (sql: Sql, accountId: string) => sql.rows(keysOfAccount, [accountId])
export const addSshKey = (
  tx: Tx,
  key: Pick<SshKeyRow, 'id' | 'name' | 'fingerprint'> & { readonly accountId: string; readonly publicKey: string },
) => tx.one(insertKey, [key.id, key.accountId, key.name, key.publicKey, key.fingerprint])
/** Deletes the SSH key. Returns its name; undefined if the account has no such key. */
export const removeSshKey = async (tx: Tx, id: string, accountId: string) =>
  (await tx.maybe(deleteKey, [id, accountId]))?.name
