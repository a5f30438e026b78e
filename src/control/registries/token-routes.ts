/** The token server of the installation's own registry: clients of the registry request their access tokens from it. */
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { notFound, unauthenticated } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import type { Security } from '../http/ports.ts'
import { roleAllows, scopesAllow } from '../http/scopes.ts'
import type { Scope } from '../http/operation.ts'
import { type OwnRegistry, ownRegistry } from './own.ts'
import type { registryOperations } from './schema.ts'
import { readTicket } from './ticket.ts'
import {
  type RegistryAction,
  type RegistryGrant,
  tokenSeconds,
  tokenSigner,
  type WantedAccess,
  wantedAccess,
} from './token.ts'

const scopeOf = { pull: 'read', push: 'deploy', delete: 'write' } as const satisfies Record<RegistryAction, Scope>

type TokenOperations = Pick<typeof registryOperations, 'getRegistryToken' | 'getRegistry'>
type TokenDeps = Pick<Deps, 'config' | 'vault' | 'clock'>

export function tokenHandlers(deps: TokenDeps, security: Security): Handlers<TokenOperations> {
  const { clock, config, vault } = deps
  const sign = tokenSigner(vault)
  const own: OwnRegistry | undefined = ownRegistry(config)
  return {
    getRegistry: {
      read: async ({ project }) => ({
        host: own?.host ?? null,
        prefix: own ? `${own.host}/${project.slug}` : null,
      }),
    },
    getRegistryToken: {
      read: async ({ headers, ip, query }) => {
        if (!own) throw notFound()
        const { user, password } = basicOf(headers.authorization)
        const wanted = wantedAccess(query.scope ?? [])
        const ticket = readTicket(vault, password, clock.now().getTime())
        const access = ticket ? ofTicket(ticket, wanted) : await ofToken(security, password, wanted, ip)
        const token = sign(ticket ? ticket.repository : user, access, clock.now())
        return { token, access_token: token, expires_in: tokenSeconds, issued_at: clock.now().toISOString() }
      },
    },
  }
}

/** Parses a Basic authorization header (RFC 7617). @throws ApiError `unauthenticated` */
function basicOf(header: string | readonly string[] | undefined) {
  const [, text = ''] = /^Basic +([A-Za-z0-9+/=_-]{1,8192})$/i.exec(typeof header === 'string' ? header : '') ?? []
  const [, user = '', password = ''] = /^([^:]*):(.+)$/s.exec(Buffer.from(text, 'base64').toString('utf8')) ?? []
  if (password === '') throw unauthenticated('Sign in with any user name, and an access token as the password.')
  return { user, password }
}

function ofTicket(ticket: { readonly repository: string; readonly push: boolean }, wanted: readonly WantedAccess[]) {
  const mayDo = (action: RegistryAction) => action === 'pull' || (action === 'push' && ticket.push)
  return wanted
    .filter(({ name }) => name === ticket.repository)
    .map(({ name, actions }): RegistryGrant => ({ type: 'repository', name, actions: actions.filter(mayDo) }))
}

/**
 * Grants the actions that both the access token and the account's role in the project allow. If the account is not a
 * member, the response is the same as for a project that does not exist: nothing is granted.
 * @throws ApiError `unauthenticated`
 */
async function ofToken(
  security: Security,
  token: string,
  wanted: readonly WantedAccess[],
  ip: string,
): Promise<readonly RegistryGrant[]> {
  const origin = { ip, userAgent: 'registry', requestId: newId() }
  const caller = await security.authenticate(token, origin)
  if (caller.via.kind !== 'pat') throw unauthenticated('The password must be an access token.')
  const grants: RegistryGrant[] = []
  for (const { name, project, actions } of wanted) {
    const found = await security.authenticateInProject(token, project, origin)
    // Requests may also select a project by its UUID, but names of repositories contain its slug.
    if (found.project?.slug !== project) continue
    const { memberRole } = found.project
    const mayDo = (action: RegistryAction) =>
      scopesAllow(caller.scopes, scopeOf[action]) && roleAllows(memberRole, scopeOf[action])
    grants.push({ type: 'repository', name, actions: actions.filter(mayDo) })
  }
  return grants
}
