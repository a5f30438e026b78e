/** From a credential to who calls, and where; the frame asks this before every `bearer` operation. */
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'
import { unauthenticated } from '../http/errors.ts'
import type { Caller, ProjectAccess, Scope } from '../http/operation.ts'
import type { Security } from '../http/ports.ts'
import {
  type PrincipalInProjectRow,
  type PrincipalRow,
  type Selection,
  principalByPat,
  principalByPatInProject,
  principalBySession,
  principalBySessionInProject,
} from './access-store.ts'
import { looksIssued, patPrefix, purposes } from './credentials.ts'
import { type SessionClaims, createSessionTokens } from './jwt.ts'
import { type PatUse, trackPatUse } from './pat-use.ts'
import { allScopes, expandScopes } from './rules.ts'

/** What the frame asks for. */
export interface Authenticator extends Security {
  /** Writes what is known about token use now and stops the timer. */
  stop(): Promise<void>
}

type Credential =
  | { readonly kind: 'session'; readonly claims: SessionClaims }
  | { readonly kind: 'pat'; readonly hash: Buffer }

const everything: ReadonlySet<Scope> = new Set(allScopes)

/** The text never says which part was wrong. */
const invalidToken = () => unauthenticated('The token is not valid or has expired. Sign in again.')
export function createAuthenticator(deps: Pick<Deps, 'db' | 'vault' | 'clock' | 'config' | 'log'>): Authenticator {
  const { db, vault, clock, config } = deps
  const tokens = createSessionTokens({ vault, clock, ttlSeconds: config.accessTokenTtlSeconds })
  const uses = trackPatUse({ db, clock, log: deps.log })

  const parse = (credential: string): Credential => {
    if (looksIssued(credential, patPrefix)) return { kind: 'pat', hash: vault.hash(purposes.pat, credential) }
    const claims = tokens.verify(credential)
    if (!claims) throw invalidToken()
    return { kind: 'session', claims }
  }

  return {
    async authenticate(text) {
      const credential = parse(text)
      const row = await principal(credential)
      return callerOf(row, credential, uses)
    },
    async authenticateInProject(text, selector) {
      const credential = parse(text)
      const row = await principalInProject(credential, selectionOf(selector))
      return { caller: callerOf(row, credential, uses), project: projectOf(row) }
    },
    stop: () => uses.stop(),
  }

  function principal(credential: Credential): Promise<PrincipalRow | undefined> {
    if (credential.kind === 'pat') return principalByPat(db, credential.hash)
    const { sessionId, userId, epoch } = credential.claims
    return principalBySession(db, sessionId, userId, epoch)
  }

  function principalInProject(credential: Credential, selection: Selection) {
    return credential.kind === 'pat'
      ? principalByPatInProject(db, credential.hash, selection)
      : principalBySessionInProject(db, credential.claims, selection)
  }
}

function callerOf(row: PrincipalRow | undefined, credential: Credential, uses: PatUse): Caller {
  if (!row) throw invalidToken()
  const { userId, email, role, boundProjectId } = row
  if (credential.kind === 'session') {
    const via = { kind: 'session', sessionId: credential.claims.sessionId } as const
    return { userId, email, role, via, scopes: everything, boundProjectId }
  }
  if (row.patId === null) throw new Error('BUG: a token without an id')
  uses.note(row.patId)
  return {
    userId,
    email,
    role,
    via: { kind: 'pat', patId: row.patId },
    scopes: expandScopes(row.scopes ?? []),
    boundProjectId,
  }
}

function projectOf(row: PrincipalInProjectRow | undefined): ProjectAccess | undefined {
  if (!row || row.projectId === null) return undefined
  return { id: row.projectId, slug: row.projectSlug, name: row.projectName, memberRole: row.memberRole }
}

/** Text that is no slug matches nothing, so it needs no check of its own. */
function selectionOf(selector: string | undefined): Selection {
  if (selector === undefined) return { id: null, slug: null }
  return isUuid(selector) ? { id: selector, slug: null } : { id: null, slug: selector }
}
