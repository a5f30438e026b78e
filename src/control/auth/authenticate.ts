/** From a credential to who calls, and where; the frame asks this before every `bearer` operation. */
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'
import { unauthenticated } from '../http/errors.ts'
import type { Caller, ProjectAccess, Scope } from '../http/operation.ts'
import type { Origin, Security } from '../http/ports.ts'
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
import { type VerifiedClaims, createSessionTokens } from './jwt.ts'
import { type PatUse, trackPatUse } from './pat-use.ts'
import { recordRefusals } from './refusals.ts'
import { allScopes, expandScopes } from './rules.ts'

/** What the frame asks for. */
export interface Authenticator extends Security {
  /** Writes what is known about token use now and stops the timer. */
  stop(): Promise<void>
}

type Credential =
  | { readonly kind: 'session'; readonly claims: VerifiedClaims }
  | { readonly kind: 'pat'; readonly hash: Buffer }

const everything: ReadonlySet<Scope> = new Set(allScopes)

export function createAuthenticator(deps: Pick<Deps, 'db' | 'vault' | 'clock' | 'config' | 'log'>): Authenticator {
  const { db, vault, clock, config } = deps
  const tokens = createSessionTokens({ vault, clock, ttlSeconds: config.accessTokenTtlSeconds })
  const scopesOf = rememberScopes()
  const uses = trackPatUse({ db, clock, log: deps.log })
  const refusals = recordRefusals(deps)

  const parse = (text: string): Credential | undefined => {
    if (looksIssued(text, patPrefix)) return { kind: 'pat', hash: vault.hash(purposes.pat, text) }
    const claims = tokens.verify(text)
    return claims && { kind: 'session', claims }
  }

  /** Asks the database about the credential; who is not found is refused, and that is written down. */
  async function ask<Row extends PrincipalRow>(
    text: string,
    origin: Origin,
    find: (credential: Credential) => Promise<Row | undefined>,
  ): Promise<{ readonly caller: Caller; readonly row: Row }> {
    const credential = parse(text)
    const row = credential && (await find(credential))
    if (credential && row) return { caller: callerOf(row, credential, uses, scopesOf), row }
    // Only a signature of ours proves whose token it was.
    await refusals.record(origin, credential?.kind === 'session' ? credential.claims.userId : undefined)
    throw unauthenticated('The token is not valid or has expired. Sign in again.')
  }

  return {
    async authenticate(text, origin) {
      const { caller } = await ask(text, origin, credential =>
        credential.kind === 'pat' ? principalByPat(db, credential.hash) : principalBySession(db, credential.claims),
      )
      return caller
    },
    async authenticateInProject(text, selector, origin) {
      const selection = selectionOf(selector)
      const { caller, row } = await ask(text, origin, credential =>
        credential.kind === 'pat'
          ? principalByPatInProject(db, credential.hash, selection)
          : principalBySessionInProject(db, credential.claims, selection),
      )
      return { caller, project: projectOf(row) }
    },
    stop: () => uses.stop(),
  }
}

/** Sets of scopes by how they are stored: there are few, and each request has one of them. */
function rememberScopes(): (stored: string) => ReadonlySet<Scope> {
  const known = new Map<string, ReadonlySet<Scope>>()
  // They are stored as they were given: in any order, more than once.
  const most = 100
  return stored => {
    const scopes = known.get(stored) ?? expandScopes(stored.split(' '))
    if (known.size < most) known.set(stored, scopes)
    return scopes
  }
}

function callerOf(
  row: PrincipalRow,
  credential: Credential,
  uses: PatUse,
  scopesOf: ReturnType<typeof rememberScopes>,
): Caller {
  const { userId, email, role, boundProjectId } = row
  if (credential.kind === 'session') {
    const via = { kind: 'session', sessionId: credential.claims.sessionId } as const
    return { userId, email, role, via, scopes: everything, boundProjectId, expiresAt: credential.claims.expiresAt }
  }
  if (row.patId === null) throw new Error('BUG: a token without an id')
  uses.note(row.patId)
  return {
    userId,
    email,
    role,
    via: { kind: 'pat', patId: row.patId },
    scopes: scopesOf(row.scopes ?? ''),
    boundProjectId,
    expiresAt: row.expiresAt,
  }
}

function projectOf(row: PrincipalInProjectRow): ProjectAccess | undefined {
  if (row.projectId === null) return undefined
  return { id: row.projectId, slug: row.projectSlug, name: row.projectName, memberRole: row.memberRole }
}

/** Text that is no slug matches nothing, so it needs no check of its own. */
function selectionOf(selector: string | undefined): Selection {
  if (selector === undefined) return { id: null, slug: null }
  return isUuid(selector) ? { id: selector, slug: null } : { id: null, slug: selector }
}
