/** Mailed links that verify or change an e-mail address. */
import { ApiError, invalidField, invalidState } from '../http/errors.ts'
import { uniqueViolation } from '../../db/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { queueMail } from '../notifications/index.ts'
import type { AuthContext } from './context.ts'
import { dropLinks, linkByHash, markVerified, setEmail, takeLink } from './link-store.ts'
import { deadLink, linkHash, mailLink } from './links.ts'
import { normaliseEmail } from './rules.ts'
import type { authOperations } from './schema.ts'
import { assertStepUp, ownAccount } from './step-up.ts'

type EmailHandlers = Pick<Handlers<typeof authOperations>, 'sendVerification' | 'verifyEmail' | 'changeEmail'>

export const emailHandlers = (ctx: AuthContext): EmailHandlers => ({
  sendVerification: {
    write: async ({ caller, audit }) => {
      const account = await ownAccount(ctx, caller)
      if (account.emailVerified) throw invalidState('The e-mail address is already verified.')
      return async tx => {
        const isSent = await mailLink(tx, ctx, account.email, 'verify')
        audit({ action: 'auth.verification_asked', resourceType: 'account', resourceId: account.id })
        return { status: isSent ? ('sent' as const) : ('sent_a_moment_ago' as const) }
      }
    },
  },
  verifyEmail: {
    write: async ({ body, audit }) => {
      const now = ctx.clock.now()
      const hash = linkHash(ctx, body.token)
      const known = await linkByHash(ctx.db, hash, now)
      if (!known || known.purpose === 'reset') throw deadLink()
      return async tx => {
        const link = await takeLink(tx, hash, now)
        if (!link) throw deadLink()
        const about = { resourceType: 'account', resourceId: link.accountId }
        if (link.purpose === 'verify') {
          if (!(await markVerified(tx, link.accountId, link.email, now))) throw deadLink()
          audit({ ...about, action: 'auth.email_verified' }, { userId: link.accountId })
          return { status: 'verified' as const }
        }
        const before = await setEmail(tx, link.accountId, link.email, link.epoch, now).catch((cause: unknown) => {
          throw uniqueViolation(cause, 'account_email') ? emailTaken(cause) : cause
        })
        if (before === undefined) throw deadLink()
        // The account's other links are deleted: those mailed to the previous address would still give access to the
        // account.
        await dropLinks(tx, link.accountId)
        audit(
          { ...about, action: 'auth.email_changed', details: { from: before, to: link.email } },
          { userId: link.accountId },
        )
        queueMail(tx, ctx, {
          to: before,
          subject: 'Your e-mail address was changed',
          text: `The e-mail address of your account is now ${link.email}. If you did not change it, ask the operator of ${ctx.config.publicUrl} for help at once.`,
        })
        return { status: 'changed' as const }
      }
    },
  },
  changeEmail: {
    write: async call => {
      const { body, audit } = call
      const account = await ownAccount(ctx, call.caller)
      await assertStepUp(ctx, call, account, body)
      const email = normaliseEmail(body.email)
      if (email === account.email) throw invalidField('email', 'is already the address of the account')
      return async tx => {
        const isSent = await mailLink(tx, ctx, account.email, 'change', email)
        audit({
          action: 'auth.email_change_asked',
          resourceType: 'account',
          resourceId: account.id,
          details: { to: email },
        })
        if (isSent)
          queueMail(tx, ctx, {
            to: account.email,
            subject: 'A change of your e-mail address was requested',
            text: `The e-mail address of your account will change to ${email} once that address is confirmed. If this was not you, change your password now.`,
          })
        return { status: isSent ? ('sent' as const) : ('sent_a_moment_ago' as const) }
      }
    },
  },
})

const emailTaken = (cause: unknown) =>
  new ApiError('name_taken', 'Another account has this e-mail address.', {
    details: [{ field: 'email', message: 'already taken' }],
    cause,
  })
