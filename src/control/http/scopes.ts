/** Scopes of tokens and roles, and which scopes include others. */
import type { MemberRole, Scope } from './operation.ts'

/**
 * The scopes that each scope includes. `exec` (programs, terminals and files in a VM) is included only in `write` and
 * `admin`, so a token that reads or deploys cannot enter a VM.
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

/** The scope of each project role, independent of the scopes of a token. A request needs both. */
const scopeOfRole = { viewer: 'read', member: 'write', admin: 'admin', owner: 'admin' } as const satisfies Record<
  MemberRole,
  Scope
>

export const roleAllows = (role: MemberRole, needed: Scope) => includes(scopeOfRole[role], needed)
