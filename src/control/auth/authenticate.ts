/** From a credential to who calls, and where; the frame asks this before every `bearer` operation. */
import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../../db/db.ts'
import { isUuid } from '../../lib/ids.ts'
import { createGenerationalCache } from '../../lib/generational-cache.ts'
import type { Deps } from '../base/deps.ts'
import { unauthenticated } from '../http/errors.ts'
import type { Caller, ProjectAccess, Scope } from '../http/operation.ts'
import type { CallerInProject, Origin, Presume, Security } from '../http/ports.ts'
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
import { trackPatUse } from './pat-use.ts'
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

/** About 1 KiB each. */
const mostCached = 10_000

const everything: ReadonlySet<Scope> = new Set(allScopes)

export function createAuthenticator(deps: Pick<Deps, 'db' | 'vault' | 'clock' | 'config' | 'log'>): Authenticator {
  const { db, vault, clock, config } = deps
  const tokens = createSessionTokens({ vault, clock, ttlSeconds: config.accessTokenTtlSeconds })
  const scopesOf = rememberScopes()
  const uses = trackPatUse({ db, clock, log: deps.log })
  const refusals = recordRefusals(deps)
  const cached = createGenerationalCache<Known>(mostCached)
  const patHashes = createGenerationalCache<Buffer>(mostCached)

  const patHash = (text: string): Buffer => {
    // The keyed hash, which is what is stored, takes 14 us; the plain one less than 1.
    const key = hash('sha256', text, 'base64')
    const found = patHashes.get(key) ?? vault.hash(purposes.pat, text)
    patHashes.set(key, found)
    return found
  }

  const parse = (text: string): Credential | undefined => {
    if (looksIssued(text, patPrefix)) return { kind: 'pat', hash: patHash(text) }
    const claims = tokens.verify(text)
    return claims && { kind: 'session', claims }
  }

  async function refuse(origin: Origin, userId: string | undefined): Promise<never> {
    await refusals.record(origin, userId)
    throw unauthenticated('The token is not valid or has expired. Sign in again.')
  }

  /**
   * Asks the database about the credential, each time; who is not found is refused, and that is written down. What `presume`
   * begins before its first await is sent together with this question (src/db/socket.ts).
   */
  async function ask(text: string, selection: Selection | undefined, origin: Origin, presume: Presume | undefined) {
    const credential = parse(text)
    if (!credential) return refuse(origin, undefined)
    const key = keyOf(credential, selection)
    const known = cached.get(key)
    const asked = principalOf(db, credential, selection)
    if (known) presume?.(known.who)
    const row = await asked
    if (!row) {
      cached.forget(key)
      // Only a signature of ours proves whose token it was.
      return refuse(origin, credential.kind === 'session' ? credential.claims.userId : undefined)
    }
    if (row.patId !== null) uses.note(row.patId)
    if (known && isDeepStrictEqual(row, known.row)) return known.who
    const who = { caller: callerOf(row, credential, scopesOf), project: projectOf(row) }
    // Made-up names of projects are not kept: whoever has a credential could fill the memory with them.
    if (selection && !who.project) cached.forget(key)
    else cached.set(key, { row, who })
    return who
  }

  return {
    authenticate: async (text, origin, presume) => (await ask(text, undefined, origin, presume)).caller,
    authenticateInProject: (text, selector, origin, presume) => ask(text, selectionOf(selector), origin, presume),
    stop: () => uses.stop(),
  }
}

/** What the database says of a credential decides, with the credential, who calls. */
interface Known {
  readonly row: PrincipalRow
  readonly who: CallerInProject
}

function principalOf(db: Db, credential: Credential, selection: Selection | undefined) {
  if (credential.kind === 'pat')
    return selection ? principalByPatInProject(db, credential.hash, selection) : principalByPat(db, credential.hash)
  return selection
    ? principalBySessionInProject(db, credential.claims, selection)
    : principalBySession(db, credential.claims)
}

/** Of all that the question consists of; not of the credential itself, which is nowhere kept. */
function keyOf(credential: Credential, selection: Selection | undefined): string {
  const named = selection?.slug == null ? selection?.id : `=${selection.slug}`
  const where = selection ? `in ${named ?? ''}` : ''
  if (credential.kind === 'pat') return `${credential.hash.toString('base64')} ${where}`
  const { sessionId, userId, epoch, expiresAt } = credential.claims
  return `${sessionId} ${userId} ${epoch} ${expiresAt.getTime()} ${where}`
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

function callerOf(row: PrincipalRow, credential: Credential, scopesOf: ReturnType<typeof rememberScopes>): Caller {
  const { userId, email, role, boundProjectId } = row
  if (credential.kind === 'session') {
    const via = { kind: 'session', sessionId: credential.claims.sessionId } as const
    return { userId, email, role, via, scopes: everything, boundProjectId, expiresAt: credential.claims.expiresAt }
  }
  if (row.patId === null) throw new Error('BUG: a token without an id')
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

function projectOf(row: PrincipalRow | PrincipalInProjectRow): ProjectAccess | undefined {
  if (!('projectId' in row) || row.projectId === null) return undefined
  return { id: row.projectId, slug: row.projectSlug, name: row.projectName, memberRole: row.memberRole }
}

/** Text that is no slug matches nothing, so it needs no check of its own. */
function selectionOf(selector: string | undefined): Selection {
  if (selector === undefined) return { id: null, slug: null }
  return isUuid(selector) ? { id: selector.toLowerCase(), slug: null } : { id: null, slug: selector }
}
