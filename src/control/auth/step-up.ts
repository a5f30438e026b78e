/**
 * Step-up authentication (ASVS 5.0, 7.5.1): operations that weaken or delete an account require a proof besides the
 * credential: the password, a code of the second factor, or a sign-in within the last ten minutes. A stolen session or
 * token alone is not enough. The specification declares no body for these operations, so a recent sign-in must be
 * accepted.
 */
import { ApiError, forbidden, unauthenticated } from '../http/errors.ts'
import type { Caller } from '../http/operation.ts'
import { type AuthContext, type Origin, assertWholeAccount } from './context.ts'
import { recentLoginMs } from './rules.ts'
import { spendSecondFactor } from './second-factor.ts'
import { sessionBeganAt } from './session-store.ts'
import { type CredentialRow, credentials } from './store.ts'

export interface Proof {
  readonly password?: string | null
  readonly code?: string | null
}

/** Reads the caller's account. @throws ApiError 403 for a token that is bound to a project */
export async function ownAccount(ctx: AuthContext, caller: Caller): Promise<CredentialRow> {
  assertWholeAccount(caller)
  const account = await credentials(ctx.db, caller.userId)
  if (!account) throw unauthenticated()
  return account
}

/** Requires a proof of the user's identity. @throws ApiError 403 if the proof is missing or invalid */
export async function assertStepUp(
  ctx: AuthContext,
  call: Origin & { readonly caller: Caller },
  account: CredentialRow,
  { password, code }: Proof,
): Promise<void> {
  if (password || code) {
    await ctx.backoff.enter(account.email, call.ip)
    if (password && (await ctx.passwords.verify(password, account.passwordHash))) return
    if (code && (await spendSecondFactor(ctx, account, code))) return
    await ctx.backoff.failed(account.email, call.ip)
    throw new ApiError('forbidden', 'The password or code is wrong.')
  }
  const { via } = call.caller
  const began = via.kind === 'session' ? await sessionBeganAt(ctx.db, via.sessionId) : undefined
  if (began && ctx.clock.now().getTime() - began.getTime() <= recentLoginMs) return
  throw forbidden('Sign in again (within the last 10 minutes), or send your password or a code.')
}
