import { ApiError, invalidField, unauthenticated } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { notifyAccount } from '../notifications/index.ts'
import { leaveAllProjects } from '../projects/index.ts'
import { checkCaptcha } from './captcha-routes.ts'
import { type AuthContext, assertWholeAccount } from './context.ts'
import { mailLink } from './links.ts'
import { addAccount } from './new-account.ts'
import { normaliseEmail, passwordFault } from './rules.ts'
import type { authOperations } from './schema.ts'
import { endAllSessions } from './session-store.ts'
import { assertStepUp, ownAccount } from './step-up.ts'
import * as store from './store.ts'
import { viewUser } from './view.ts'

type AccountHandlers = Pick<
  Handlers<typeof authOperations>,
  'register' | 'getMe' | 'updateMe' | 'deleteMe' | 'changePassword'
>

export const accountHandlers = (ctx: AuthContext): AccountHandlers => ({
  register: {
    write: async call => {
      const { body } = call
      const email = normaliseEmail(body.email)
      const fault = passwordFault(body.password, { email })
      if (fault) throw invalidField('password', fault)
      await checkCaptcha(ctx, body.captcha_id, body.captcha_answer, body.captcha_proof)
      const passwordHash = await ctx.passwords.hash(body.password)
      return async tx => {
        const person = { email, passwordHash, firstName: body.first_name ?? null, lastName: body.last_name ?? null }
        const id = await addAccount(tx, person, ctx.config.defaultPlan, call.audit)
        if (id === undefined) throw emailTaken()
        await mailLink(tx, ctx, email, 'verify')
        return viewUser(await existing(store.account(tx, id)))
      }
    },
  },
  getMe: { read: async ({ caller }) => viewUser(await existing(store.account(ctx.db, caller.userId))) },
  updateMe: {
    write: async ({ body, caller, audit }) => {
      assertWholeAccount(caller)
      checkAvatar(body.avatar_url ?? '')
      return async tx => {
        await store.changeProfile(tx, caller.userId, {
          emailNotifications: body.email_notifications ?? null,
          firstName: body.first_name ?? null,
          lastName: body.last_name ?? null,
          marketingEmails: body.marketing_emails ?? null,
          avatarUrl: body.avatar_url ?? null,
        })
        const note = { action: 'account.updated', resourceType: 'account', resourceId: caller.userId }
        audit({ ...note, details: { changed: Object.keys(body).filter(field => profileFields.has(field)) } })
        return viewUser(await existing(store.account(tx, caller.userId)))
      }
    },
  },
  changePassword: {
    write: async call => {
      const { caller, body } = call
      assertWholeAccount(caller)
      const account = await existing(store.credentials(ctx.db, caller.userId))
      const fault = passwordFault(body.new_password, account)
      if (fault) throw invalidField('new_password', fault)
      await ctx.backoff.enter(account.email, call.ip)
      if (!(await ctx.passwords.verify(body.current_password, account.passwordHash))) {
        await ctx.backoff.failed(account.email, call.ip)
        throw invalidField('current_password', 'is wrong')
      }
      const passwordHash = await ctx.passwords.hash(body.new_password)
      return async tx => {
        if (!(await store.setPassword(tx, account.id, account.epoch, passwordHash))) throw unauthenticated()
        await endAllSessions(tx, account.id)
        store.announceRevoked(tx, account.id)
        call.audit({ action: 'auth.password_changed', resourceType: 'account', resourceId: account.id })
        await notifyAccount(tx, {
          accountId: account.id,
          kind: 'security.password_changed',
          title: 'Your password was changed',
          body: 'All sessions were ended. If this was not you, ask an administrator for help at once.',
        })
        return { status: 'password_changed' as const }
      }
    },
  },
  deleteMe: {
    write: async call => {
      const { caller, audit } = call
      await assertStepUp(ctx, call, await ownAccount(ctx, caller), call.body ?? {})
      return async tx => {
        const admins = await store.lockedAdmins(tx)
        const isLastAdmin = admins.length === 1 && admins[0] === caller.userId
        if (isLastAdmin && (await store.hasOtherAccounts(tx, caller.userId))) throw lastAdmin()
        const left = await leaveAllProjects(tx, caller.userId)
        store.announceRevoked(tx, caller.userId)
        if ((await store.removeAccount(tx, caller.userId)) === 0) throw unauthenticated()
        const note = { action: 'account.deleted', resourceType: 'account', resourceId: caller.userId }
        audit({ ...note, details: { deleted_projects: left.deleted, handed_over_projects: left.handedOver } })
        return { status: 'deleted' as const }
      }
    },
  },
})

const profileFields = new Set(['avatar_url', 'email_notifications', 'first_name', 'last_name', 'marketing_emails'])

/**
 * Checks the URL of an avatar. Browsers of other users load the picture, so the URL must be https and contain no
 * password.
 * @throws ApiError 400
 */
function checkAvatar(address: string): void {
  if (address === '') return
  const url = URL.parse(address)
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw invalidField('avatar_url', 'must be an https URL without a user name, or empty')
}

const emailTaken = () =>
  new ApiError('name_taken', 'There is already an account with this e-mail. Sign in instead.', {
    details: [{ field: 'email', message: 'already taken' }],
  })

const lastAdmin = () =>
  new ApiError(
    'invalid_state',
    'You are the last administrator. Make another account Admin first: mote admin set-role <e-mail> Admin',
  )

/**
 * Returns a row of the caller's account. The account existed when the caller's credential was checked; if it is gone
 * now, the credential is invalid.
 */
async function existing<Row>(row: Promise<Row | undefined>): Promise<Row> {
  const found = await row
  if (!found) throw unauthenticated()
  return found
}
