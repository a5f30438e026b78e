import { type Sql, type Tx, statement } from '../../db/db.ts'

/** Credential for one app's repository. The secret is encrypted (`git.credential`) and never returned by the API. */
export interface StoredCredential {
  readonly kind: 'token' | 'ssh_key'
  /** The only host to which the credential is sent, with the port if that is not the default. */
  readonly host: string
  readonly username: string
  readonly publicKey: string | null
  readonly knownHosts: string | null
  readonly updatedAt: Date
}

const columns = `kind, host, username, public_key AS "publicKey", known_hosts AS "knownHosts", updated_at AS "updatedAt"`
const one = statement<StoredCredential>('scm.credential', `SELECT ${columns} FROM git_credential WHERE app_id = $1`)
const withSecret = statement<StoredCredential & { readonly secret: Buffer }>(
  'scm.credentialSecret',
  `SELECT ${columns}, secret FROM git_credential WHERE app_id = $1`,
)
const putOne = statement(
  'scm.putCredential',
  `INSERT INTO git_credential (app_id, kind, host, username, public_key, known_hosts, secret)
   VALUES ($1, $2, $3, $4, $5, $6, $7)
   ON CONFLICT (app_id) DO UPDATE SET kind = excluded.kind, host = excluded.host, username = excluded.username,
     public_key = excluded.public_key, known_hosts = excluded.known_hosts, secret = excluded.secret, updated_at = now()`,
)
const removeOne = statement('scm.removeCredential', `DELETE FROM git_credential WHERE app_id = $1`)
const copyOne = statement(
  'scm.copyCredential',
  `INSERT INTO git_credential (app_id, kind, host, username, public_key, known_hosts, secret)
   SELECT $2, kind, host, username, public_key, known_hosts, secret FROM git_credential WHERE app_id = $1`,
)
const appOfName = statement<{ id: string; gitUrl: string }>(
  'scm.appOfName',
  `SELECT id, git_url AS "gitUrl" FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)

export const credential = (sql: Sql, appId: string) => sql.maybe(one, [appId])
export const sealedCredential = (sql: Sql, appId: string) => sql.maybe(withSecret, [appId])
export const putCredential = (
  tx: Tx,
  appId: string,
  c: Omit<StoredCredential, 'updatedAt'> & { readonly secret: Buffer },
) => tx.run(putOne, [appId, c.kind, c.host, c.username, c.publicKey, c.knownHosts, c.secret])
/** Removes the app's credential. Returns false if the app had none. */
export const removeCredential = async (tx: Tx, appId: string) => (await tx.run(removeOne, [appId])) === 1
/** Copies the app's credential to a preview app. */
export const copyCredential = (tx: Tx, from: string, to: string) => tx.run(copyOne, [from, to])
export const appNamed = (sql: Sql, projectId: string, name: string) => sql.maybe(appOfName, [projectId, name])
