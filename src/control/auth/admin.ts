/** Account operations of the command line (`mote admin`), in addition to the API. */
import { type Db, statement } from '../../db/db.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import { addAccount } from './new-account.ts'
import { createPasswordHasher } from './passwords.ts'
import { normaliseEmail, passwordFault } from './rules.ts'
import { endAllSessions } from './session-store.ts'
import { account, announceRevoked, credentialsByEmail, lockedAdmins } from './store.ts'

const changeRole = statement('auth.changeRole', `UPDATE account SET role = $2 WHERE id = $1`)
/**
 * Actor in the audit rows of these operations. They have no account, because database access is sufficient for them.
 * The rows are filed under the affected account.
 */
const operator = 'mote admin'
const byOperator = { userId: unknownAccount, projectId: undefined, via: undefined, ip: undefined, requestId: undefined }

/**
 * Creates an account with a project, as a registration does but without a captcha. Returns the account's role: Admin
 * for the first account of the installation.
 * @throws Error with advice if an account with the e-mail address exists, or the password is refused
 */
export async function createAccountByOperator(
  db: Db,
  { email, password, plan }: { readonly email: string; readonly password: string; readonly plan: string },
): Promise<string> {
  const address = normaliseEmail(email)
  if (!/^[^\s@]+@[^\s@]+$/.test(address)) throw new Error(`"${email}" is not an e-mail address.`)
  const fault = passwordFault(password, { email: address })
  if (fault) throw new Error(`The password ${fault}.`)
  const passwordHash = await createPasswordHasher().hash(password)
  return db.tx(async tx => {
    const person = { email: address, passwordHash, firstName: null, lastName: null }
    const id = await addAccount(tx, person, plan, ({ details, ...note }, actor) =>
      writeAudit(
        tx,
        { ...byOperator, projectId: undefined, ...actor },
        { ...note, details: { ...details, by: operator } },
      ),
    )
    if (id === undefined) throw new Error(`There is already an account with the e-mail ${email}.`)
    return (await account(tx, id))?.role ?? 'User'
  })
}

/** Changes the role of an account. @throws Error with advice if there is no such account, or it is the last Admin. */
export async function setAccountRole(db: Db, email: string, role: 'Admin' | 'User'): Promise<void> {
  await db.tx(async tx => {
    const admins = await lockedAdmins(tx)
    const account = await credentialsByEmail(tx, normaliseEmail(email))
    if (!account) throw new Error(`There is no account with the e-mail ${email}.`)
    if (role === 'User' && admins.length === 1 && admins[0] === account.id) {
      throw new Error(`${email} is the last Admin. Make another account Admin first.`)
    }
    await tx.run(changeRole, [account.id, role])
    const note = {
      action: 'account.role_changed',
      resourceType: 'account',
      resourceId: account.id,
      details: { role, by: operator },
    }
    writeAudit(tx, { ...byOperator, userId: account.id }, note)
  })
}

/** Ends all sessions of an account. @throws Error if there is no such account. */
export async function revokeAllSessions(db: Db, email: string): Promise<number> {
  return db.tx(async tx => {
    const account = await credentialsByEmail(tx, normaliseEmail(email))
    if (!account) throw new Error(`There is no account with the e-mail ${email}.`)
    const ended = await endAllSessions(tx, account.id)
    announceRevoked(tx, account.id)
    const note = {
      action: 'auth.sessions_revoked',
      resourceType: 'account',
      resourceId: account.id,
      details: { ended, by: operator },
    }
    writeAudit(tx, { ...byOperator, userId: account.id }, note)
    return ended
  })
}
