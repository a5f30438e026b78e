/** Account operations of the command line (`mote admin`), in addition to the API. */
import { type Db, statement } from '../../db/db.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import { normaliseEmail } from './rules.ts'
import { endAllSessions } from './session-store.ts'
import { announceRevoked, credentialsByEmail, lockedAdmins } from './store.ts'

const changeRole = statement('auth.changeRole', `UPDATE account SET role = $2 WHERE id = $1`)
/** Database access is sufficient for these operations. Their audit rows are filed under the affected account. */
const operator = 'mote admin'
const byOperator = { userId: unknownAccount, projectId: undefined, via: undefined, ip: undefined, requestId: undefined }

/** @throws Error with advice if there is no such account, or it is the last Admin. */
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
