/** Mailed links: they verify an address, reset a password, or change the address. */
import { ApiError, invalidField, invalidState } from '../http/errors.ts'
import { uniqueViolation } from '../../db/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { notifyAccount, queueMail } from '../notifications/index.ts'
import type { AuthContext } from './context.ts'
import { dropLinks, linkByHash, markVerified, setEmail, takeLink } from './link-store.ts'
import { hashOfLink, looksLikeLink, mailLink } from './links.ts'
import { normaliseEmail, passwordFault } from './rules.ts'
import type { authOperations } from './schema.ts'
import { endAllSessions } from './session-store.ts'
import { assertStepUp, ownAccount } from './step-up.ts'
import { announceRevoked, credentials, setPassword } from './store.ts'

type EmailHandlers = Pick<
  Handlers<typeof authOperations>,
  'sendVerification' | 'verifyEmail' | 'changeEmail' | 'forgotPassword' | 'resetPassword'
>

export const emailHandlers = (ctx: AuthContext): EmailHandlers => ({
  sendVerification: {
    write: async ({ caller, audit }) => {
      const account = await ownAccount(ctx, caller)
      if (account.emailVerified) throw invalidState('The e-mail address is verified already.')
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
        // Links mailed to the previous address would still give access to the account.
        await dropLinks(tx, link.accountId)
        audit(
          { ...about, action: 'auth.email_changed', details: { from: before, to: link.email } },
          { userId: link.accountId },
        )
        queueMail(tx, ctx, {
          to: before,
          subject: 'Your e-mail address was changed',
          text: `Your account has the address ${link.email} now. If it was not you, ask the operator of ${ctx.config.publicUrl} for help at once.`,
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
      if (email === account.email) throw invalidField('email', 'is the address of the account already')
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
            subject: 'A new e-mail address was asked for',
            text: `Your account gets the address ${email} once that is confirmed. If it was not you, change your password now.`,
          })
        return { status: isSent ? ('sent' as const) : ('sent_a_moment_ago' as const) }
      }
    },
  },
  forgotPassword: {
    write: async ({ body }) => {
      const email = normaliseEmail(body.email)
      return async tx => {
        await mailLink(tx, ctx, email, 'reset')
        // The answer is the same for an address without an account.
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
          body: 'Every session was ended. If it was not you, ask an administrator for help at once.',
        })
        return { status: 'password_changed' as const }
      }
    },
  },
})

/** One error for an unknown, expired or used link. */
const deadLink = () => invalidField('token', 'is not valid any more; ask for a new link')

function linkHash({ vault }: AuthContext, token: string): Buffer {
  if (!looksLikeLink(token)) throw deadLink()
  return hashOfLink(vault, token)
}

const emailTaken = (cause: unknown) =>
  new ApiError('name_taken', 'Another account has this e-mail address.', {
    details: [{ field: 'email', message: 'already taken' }],
    cause,
  })
