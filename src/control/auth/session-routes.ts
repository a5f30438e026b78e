import { newId } from '../../lib/ids.ts'
import { writeAudit } from '../audit/index.ts'
import { unauthenticated } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { notifyAccount } from '../notifications/index.ts'
import { type AuthContext, type Origin, actorAt, auditFailure } from './context.ts'
import { derivedRefreshToken, looksIssued, newRefreshToken, purposes, refreshPrefix } from './credentials.ts'
import { normaliseEmail } from './rules.ts'
import type { authOperations } from './schema.ts'
import { spendSecondFactor } from './second-factor.ts'
import {
  endAllSessions,
  endSession,
  openSession,
  refreshByHash,
  rotateRefresh,
  signInsBefore,
} from './session-store.ts'
import { announceRevoked, type CredentialRow, credentialsByEmail } from './store.ts'
import { viewUser } from './view.ts'

/** The same error for every failed sign-in, so that it does not reveal which e-mail addresses have an account. */
const wrongCredentials = () => unauthenticated('E-mail or password is wrong.')
const deadRefreshToken = () => unauthenticated('The refresh token is not valid. Sign in again.')

type SessionHandlers = Pick<Handlers<typeof authOperations>, 'login' | 'refreshSession' | 'logout'>

export const sessionHandlers = (ctx: AuthContext): SessionHandlers => ({
  login: {
    write: async call => {
      const { password, code } = call.body
      const account = await checkPassword(ctx, call, normaliseEmail(call.body.email), password)
      if (account.totpEnabled) {
        if (!code)
          return async () => ({ user: viewUser(account), requires_2fa: true, token: null, refresh_token: null })
        if (!(await spendSecondFactor(ctx, account, code))) {
          await refuse(ctx, call, account.email, account.id, 'second_factor')
          throw unauthenticated('The code is not valid. Wait for the next one, or use a recovery code.')
        }
      }
      await ctx.backoff.succeeded(account.email, call.ip)
      const before = await signInsBefore(ctx.db, account.id, call.ip)
      const userAgent = headerText(call.headers['user-agent'])
      return async tx => {
        const id = newId()
        const refreshToken = newRefreshToken()
        const opened = await openSession(tx, {
          id,
          accountId: account.id,
          epoch: account.epoch,
          ip: call.ip,
          userAgent,
          createdAt: ctx.clock.now(),
          refreshHash: ctx.vault.hash(purposes.refreshToken, refreshToken),
          refreshExpiresAt: refreshExpiry(ctx),
        })
        if (!opened) throw wrongCredentials()
        call.audit({ action: 'auth.login', resourceType: 'session', resourceId: id }, { userId: account.id })
        if (before.any && !before.familiar) {
          await notifyAccount(tx, {
            accountId: account.id,
            kind: 'security.new_login',
            title: 'New sign-in',
            body: `Somebody signed in from ${call.ip}. If this was not you, change your password now.`,
            metadata: { ip_address: call.ip, user_agent: userAgent },
          })
        }
        const token = ctx.tokens.sign({ userId: account.id, sessionId: id, epoch: account.epoch })
        return { user: viewUser(account), requires_2fa: false, token, refresh_token: refreshToken }
      }
    },
  },
  refreshSession: {
    read: call =>
      refresh(ctx, call, { presented: call.body.refresh_token, key: headerText(call.headers['idempotency-key']) }),
  },
  logout: {
    write: async call => {
      const token = call.body.refresh_token
      const known = looksIssued(token, refreshPrefix)
        ? await refreshByHash(ctx.db, ctx.vault.hash(purposes.refreshToken, token), ctx.clock.now())
        : undefined
      return async tx => {
        if (known && (await endSession(tx, known.sessionId)) === 1) {
          announceRevoked(tx, known.accountId)
          const note = { action: 'auth.logout', resourceType: 'session', resourceId: known.sessionId }
          call.audit(note, { userId: known.accountId })
        }
        return { status: 'logged_out' as const }
      }
    },
  },
})

const refreshExpiry = (ctx: AuthContext) =>
  new Date(ctx.clock.now().getTime() + ctx.config.refreshTokenTtlSeconds * 1000)

const headerText = (value: string | readonly string[] | undefined) =>
  (typeof value === 'string' ? value : value?.[0])?.slice(0, 500) ?? null

async function checkPassword(
  ctx: AuthContext,
  origin: Origin,
  email: string,
  password: string,
): Promise<CredentialRow> {
  await ctx.backoff.enter(email, origin.ip)
  const account = await credentialsByEmail(ctx.db, email)
  // The password is verified even without an account (against a dummy hash), so that the response takes equally long.
  const matches = await ctx.passwords.verify(password, account?.passwordHash)
  if (account && matches) return account
  await refuse(ctx, origin, email, account?.id, 'password')
  throw wrongCredentials()
}

async function refuse(ctx: AuthContext, origin: Origin, email: string, accountId: string | undefined, what: string) {
  await ctx.backoff.failed(email, origin.ip)
  await auditFailure(ctx, actorAt(origin, accountId), {
    action: 'auth.login_failed',
    resourceType: 'account',
    ...(accountId === undefined ? {} : { resourceId: accountId }),
    details: { wrong: what },
  })
}

type RefreshOutcome = { readonly token: string; readonly refresh_token: string } | 'refused'

/**
 * Minimum length of an `Idempotency-Key` for a refresh. A shorter text cannot hold the 128 random bits that make it
 * hard to guess.
 */
const shortestKey = 22

/**
 * Exchanges a refresh token. Runs in its own transaction: if the token was already used, the revocation of all sessions
 * must commit although the request fails.
 * With an `Idempotency-Key`, the new token is derived from the key and the spent token. So the client can repeat the
 * request if the response was lost (a page that reloads, a broken connection), and no response has to be stored. A
 * repeated request counts as reuse of the token if the new token has been used, or if the request has a different key.
 */
async function refresh(
  ctx: AuthContext,
  origin: Origin,
  { presented, key }: { readonly presented: string; readonly key: string | null },
) {
  if (!looksIssued(presented, refreshPrefix)) throw deadRefreshToken()
  const spent = ctx.vault.hash(purposes.refreshToken, presented)
  const isRepeatable = key !== null && key.length >= shortestKey
  const fresh = isRepeatable
    ? derivedRefreshToken(ctx.vault.hash(purposes.nextRefreshToken, `${presented}\n${key}`))
    : newRefreshToken()
  const outcome = await ctx.db.tx<RefreshOutcome>(async tx => {
    const freshHash = ctx.vault.hash(purposes.refreshToken, fresh)
    const session = await rotateRefresh(tx, spent, freshHash, ctx.clock.now(), refreshExpiry(ctx))
    if (session) {
      const { accountId, sessionId, epoch } = session
      const note = { action: 'auth.refresh', resourceType: 'session', resourceId: sessionId }
      writeAudit(tx, actorAt(origin, accountId, sessionId), note)
      return { token: ctx.tokens.sign({ userId: accountId, sessionId, epoch }), refresh_token: fresh }
    }
    const known = await refreshByHash(tx, spent, ctx.clock.now())
    if (!known) return 'refused'
    const issued = isRepeatable && known.used ? await refreshByHash(tx, freshHash, ctx.clock.now()) : undefined
    if (issued && !issued.used && !issued.expired && !issued.revoked) {
      const { accountId, sessionId, epoch } = issued
      return { token: ctx.tokens.sign({ userId: accountId, sessionId, epoch }), refresh_token: fresh }
    }
    const actor = actorAt(origin, known.accountId, known.sessionId)
    if (!known.used) {
      const details = { because: known.revoked ? 'revoked' : 'expired' }
      const note = { action: 'auth.refresh_failed', resourceType: 'session', resourceId: known.sessionId, details }
      writeAudit(tx, actor, note)
      return 'refused'
    }
    const ended = await endAllSessions(tx, known.accountId)
    const note = {
      action: 'auth.refresh_reused',
      resourceType: 'account',
      resourceId: known.accountId,
      details: { ended },
    }
    writeAudit(tx, actor, note)
    if (ended === 0) return 'refused'
    announceRevoked(tx, known.accountId)
    await notifyAccount(tx, {
      accountId: known.accountId,
      kind: 'security.sessions_revoked',
      title: 'You were signed out everywhere',
      body: 'A refresh token that had been used before was presented again, so it may have been stolen. Sign in again.',
      metadata: { ip_address: origin.ip },
    })
    return 'refused'
  })
  if (outcome === 'refused') throw deadRefreshToken()
  return outcome
}
