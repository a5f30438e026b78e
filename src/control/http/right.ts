import type { MemberRole, Operation, Scope } from './operation.ts'

/** The lowest project role that has each scope (admission.ts). */
const roles = {
  read: 'viewer',
  exec: 'member',
  deploy: 'member',
  write: 'member',
  admin: 'admin',
} as const satisfies Record<Scope, MemberRole>

/** Describes the proof of rights that an operation needs, for the OpenAPI document and docs/security.md. */
export function rightOf({ auth, scope, project, adminOnly, stepUp, proof }: Operation): string {
  const parts = [
    ...(auth === 'bearer' ? [`session, or token with the scope \`${scope}\``] : []),
    ...(auth === 'bearer' && project !== 'none' ? [`at least ${roles[scope]} of the project`] : []),
    ...(adminOnly ? ['role Admin'] : []),
    ...(stepUp && proof === undefined ? ['password, code, or sign-in within 10 minutes'] : []),
    ...(proof === undefined ? [] : [proof]),
  ]
  return parts.join('; ')
}
