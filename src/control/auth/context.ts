import { type AuditActor, unknownAccount, writeAudit } from '../audit/index.ts'
import type { Deps } from '../base/deps.ts'
import { forbidden } from '../http/errors.ts'
import type { AuditNote, Caller } from '../http/operation.ts'
import { type Backoff, createBackoff } from './backoff.ts'
import { type SessionTokens, createSessionTokens } from './jwt.ts'
import { type PasswordHasher, createPasswordHasher } from './passwords.ts'

/** Dependencies that the handlers of this feature share. */
export interface AuthContext extends Deps {
  readonly passwords: PasswordHasher
  readonly tokens: SessionTokens
  readonly backoff: Backoff
}

export function createAuthContext(deps: Deps): AuthContext {
  const ttlSeconds = deps.config.accessTokenTtlSeconds
  return {
    ...deps,
    passwords: createPasswordHasher(),
    tokens: createSessionTokens({ vault: deps.vault, clock: deps.clock, ttlSeconds }),
    backoff: createBackoff(deps),
  }
}

/** Origin of a request, as each handler gets it. */
export interface Origin {
  readonly ip: string
  readonly requestId: string
}

/** Returns the audit actor of a request that has no credential, such as a sign-in. */
export const actorAt = (origin: Origin, userId: string | undefined, sessionId?: string): AuditActor => ({
  userId: userId ?? unknownAccount,
  projectId: undefined,
  via: sessionId === undefined ? undefined : { kind: 'session', sessionId },
  ip: origin.ip,
  requestId: origin.requestId,
})

/**
 * Writes the audit row of a refused sign-in in its own transaction, because the request's transaction is rolled back or
 * never begins.
 */
export async function auditFailure(deps: Pick<Deps, 'db'>, actor: AuditActor, note: AuditNote): Promise<void> {
  await deps.db.tx(async tx => writeAudit(tx, actor, note))
}

/**
 * Refuses a token that is bound to a project, because such a token must not change the account. @throws ApiError 403
 */
export function assertWholeAccount(caller: Caller): void {
  if (caller.boundProjectId === null) return
  throw forbidden('This token is bound to a project and cannot change the account.')
}
