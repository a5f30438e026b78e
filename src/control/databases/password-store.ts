import { type Tx, statement } from '../../db/db.ts'

const setPassword = statement(
  'databases.setPassword',
  `UPDATE database SET password = $2, password_revision = password_revision + 1, revision = revision + $3,
     updated_at = now() WHERE id = $1`,
)
const setPasswordKnown = statement(
  'databases.passwordKnown',
  `UPDATE branch SET password_revision = $2, updated_at = now() WHERE id = $1 AND password_revision < $2`,
)

/**
 * Stores a new password.
 * @param sealed the password, encrypted for the purpose `database.password`
 * @param restarts true if the database's VMs must restart to get the password
 */
export const rotatePassword = (tx: Tx, id: string, sealed: Buffer, restarts: boolean) =>
  tx.run(setPassword, [id, sealed, restarts ? 1 : 0])
/** Records that the branch's running server has the new password. */
export const knowsPassword = (tx: Tx, id: string, revision: number) => tx.run(setPasswordKnown, [id, revision])
