/** Mailed links that reset a password. */
import { invalidField } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { notifyAccount } from '../notifications/index.ts'
import type { AuthContext } from './context.ts'
import { dropLinks, linkByHash, markVerified, takeLink } from './link-store.ts'
import { deadLink, linkHash, mailLink } from './links.ts'
import { normaliseEmail, passwordFault } from './rules.ts'
import type { authOperations } from './schema.ts'
import { endAllSessions } from './session-store.ts'
import { announceRevoked, credentials, setPassword } from './store.ts'

export const resetHandlers = (
  ctx: AuthContext,
): Pick<Handlers<typeof authOperations>, 'forgotPassword' | 'resetPassword'> => ({
  forgotPassword: {
    write: async ({ body }) => {
      const email = normaliseEmail(body.email)
      return async tx => {
        await mailLink(tx, ctx, email, 'reset')
        // The response is the same if no account has the e-mail address.
        return { status: 'accepted' as const }
      }
    },
  },
  resetPassword: {
    write: async ({ body, audit }) => {
      const now = ctx.clock.now()
      const hash = linkHash(ctx, body.token)
      const known = await linkByHash(ctx.db, hash, now)
      const account = known?.purpose === 'reset' ? await credentials(ctx.db, known.accountId) : undefined
      if (!known || !account) throw deadLink()
      const fault = passwordFault(body.new_password, account)
      if (fault) throw invalidField('new_password', fault)
      const passwordHash = await ctx.passwords.hash(body.new_password)
      return async tx => {
        const link = await takeLink(tx, hash, now)
        if (!link || !(await setPassword(tx, account.id, link.epoch, passwordHash))) throw deadLink()
        await markVerified(tx, account.id, link.email, now)
        await endAllSessions(tx, account.id)
        await dropLinks(tx, account.id)
        announceRevoked(tx, account.id)
        const about = { resourceType: 'account', resourceId: account.id }
        audit({ ...about, action: 'auth.password_reset' }, { userId: account.id })
        await notifyAccount(tx, {
          accountId: account.id,
          kind: 'security.password_changed',
          title: 'Your password was reset',
          body: 'All sessions were ended. If this was not you, ask an administrator for help at once.',
        })
        return { status: 'password_changed' as const }
      }
    },
  },
})
