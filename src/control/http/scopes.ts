/** Scopes of tokens and of roles, and what each includes. */
import type { MemberRole, Scope } from './operation.ts'

/**
 * `exec` (programs, terminals and files in a VM) is beside the others: a token that reads or deploys does not include
 * it.
 */
export const includedScopes = {
  read: ['read'],
  exec: ['exec', 'read'],
  deploy: ['deploy', 'read'],
  write: ['write', 'exec', 'deploy', 'read'],
  admin: ['admin', 'write', 'exec', 'deploy', 'read'],
} as const satisfies Record<Scope, readonly Scope[]>

export const allScopes: readonly Scope[] = includedScopes.admin

const includes = (scope: Scope, needed: Scope) => (includedScopes[scope] as readonly Scope[]).includes(needed)

export const scopesAllow = (scopes: ReadonlySet<Scope>, needed: Scope) =>
  [...scopes].some(scope => includes(scope, needed))

/** The scope of each role in a project, whatever the scopes of the token. */
const scopeOfRole = { viewer: 'read', member: 'write', admin: 'admin', owner: 'admin' } as const satisfies Record<
  MemberRole,
  Scope
>

export const roleAllows = (role: MemberRole, needed: Scope) => includes(scopeOfRole[role], needed)
