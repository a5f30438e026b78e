import { isUuid, newId } from '../../lib/ids.ts'
import { ApiError, forbidden, invalidField, notFound } from '../http/errors.ts'
import type { Caller, Handlers, Scope } from '../http/operation.ts'
import { notifyAccount } from '../notifications/index.ts'
import { projectFor } from './access-store.ts'
import { type AuthContext, assertWholeAccount } from './context.ts'
import { newPat, purposes } from './credentials.ts'
import { addPat, countPatsLocked, patsOf, removePat } from './pat-store.ts'
import { allScopes } from '../http/scopes.ts'
import { maxTokensPerAccount } from './rules.ts'
import type { authOperations } from './schema.ts'
import { endOwnSession, liveSessions } from './session-store.ts'
import { announceRevoked } from './store.ts'
import { viewSession, viewToken } from './view.ts'

type TokenHandlers = Pick<
  Handlers<typeof authOperations>,
  'listTokens' | 'createToken' | 'revokeToken' | 'listSessions' | 'revokeSession'
>

export const tokenHandlers = (ctx: AuthContext): TokenHandlers => ({
  listTokens: {
    read: async ({ caller }) => (await patsOf(ctx.db, caller.userId, caller.boundProjectId)).map(viewToken),
  },
  listSessions: {
    read: async ({ caller }) => {
      assertWholeAccount(caller)
      const current = caller.via.kind === 'session' ? caller.via.sessionId : undefined
      return (await liveSessions(ctx.db, caller.userId, ctx.clock.now())).map(row => viewSession(row, current))
    },
  },
  revokeSession: {
    write: async ({ params, caller, audit }) => {
      assertWholeAccount(caller)
      return async tx => {
        if (!(await endOwnSession(tx, params.session_id, caller.userId))) throw notFound()
        audit({ action: 'auth.session_revoked', resourceType: 'session', resourceId: params.session_id })
        announceRevoked(tx, caller.userId)
        return { status: 'revoked' as const }
      }
    },
  },
  createToken: {
    write: async ({ body, caller, audit }) => {
      const scopes = grantable(caller, body.scopes ?? undefined)
      const projectId = await bindTo(ctx, caller, body.project ?? undefined)
      const expiresAt = body.expires_at ? new Date(body.expires_at) : null
      if (expiresAt && expiresAt <= ctx.clock.now()) throw invalidField('expires_at', 'must be in the future')
      return async tx => {
        if ((await countPatsLocked(tx, caller.userId)) >= maxTokensPerAccount) {
          const message = `An account can have at most ${maxTokensPerAccount} tokens. Revoke one that is not used any more.`
          throw new ApiError('plan_limit_exceeded', message, {
            extra: { limit: 'max_tokens', used: maxTokensPerAccount, max: maxTokensPerAccount },
          })
        }
        const token = newPat()
        const row = await addPat(tx, {
          id: newId(),
          accountId: caller.userId,
          projectId,
          name: body.name,
          hash: ctx.vault.hash(purposes.pat, token),
          lastFour: token.slice(-4),
          scopes,
          expiresAt,
        })
        const details = { name: row.name, scopes, project: row.project }
        audit({ action: 'token.created', resourceType: 'token', resourceId: row.id, details })
        await notifyAccount(tx, {
          accountId: caller.userId,
          kind: 'security.token_created',
          title: 'New access token',
          body: `The token "${row.name}" was created. If this was not you, revoke it and change your password.`,
        })
        const { user_id: _, last_used_at: __, ...view } = viewToken(row)
        return { ...view, token }
      }
    },
  },
  revokeToken: {
    write: async ({ params, caller, audit }) => {
      if (!isUuid(params.token_id)) throw notFound()
      return async tx => {
        const removed = await removePat(tx, params.token_id, caller.userId, caller.boundProjectId)
        if (!removed) throw notFound()
        const details = { name: removed.name }
        audit({ action: 'token.revoked', resourceType: 'token', resourceId: params.token_id, details })
        announceRevoked(tx, caller.userId)
        return { status: 'revoked' as const }
      }
    },
  },
})

/** Returns the scopes of a new access token. A token cannot create another token with more scopes than its own. */
function grantable(caller: Caller, desiredFor: readonly Scope[] | undefined): readonly Scope[] {
  const own = allScopes.filter(scope => caller.scopes.has(scope))
  const missing = desiredFor?.filter(scope => !caller.scopes.has(scope)) ?? []
  if (missing.length > 0)
    throw forbidden(`A token without the scope ${missing.join(', ')} cannot grant it to another token.`)
  return desiredFor ?? own
}

/**
 * Returns the project to which a new access token is bound. A bound token can create only tokens that are bound to the
 * same project.
 */
async function bindTo(ctx: AuthContext, caller: Caller, selector: string | undefined): Promise<string | null> {
  if (selector === undefined) return caller.boundProjectId
  const selection = isUuid(selector) ? { id: selector, slug: null } : { id: null, slug: selector }
  const project = await projectFor(ctx.db, caller.userId, caller.boundProjectId, selection)
  if (!project) throw invalidField('project', 'is not one of your projects')
  return project.id
}
