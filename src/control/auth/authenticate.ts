/** Resolves a credential to its caller and project. The HTTP layer calls it before every `bearer` operation. */
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
import { allScopes } from '../http/scopes.ts'
import { expandScopes } from './rules.ts'

/** The interface of authentication for the HTTP layer. */
export interface Authenticator extends Security {
  /** Flushes pending records of token use and stops the timer. */
  stop(): Promise<void>
}

type Credential =
  | { readonly kind: 'session'; readonly claims: VerifiedClaims }
  | { readonly kind: 'pat'; readonly hash: Buffer }

/** Maximum number of cached credentials, about 1 KiB each. */
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
    // Keyed hashes of tokens take 14 us, so they are cached by a plain hash, which takes less than 1 us.
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
   * Checks the credential in the database on every call. An unknown credential is refused and audited. Statements that
   * `presume` sends before its first await share the round trip with this query (src/db/socket.ts).
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
      // The audit row names an account only for a session token, whose signature proves which account it belongs to.
      return refuse(origin, credential.kind === 'session' ? credential.claims.userId : undefined)
    }
    if (row.patId !== null) uses.note(row.patId)
    if (known && isDeepStrictEqual(row, known.row)) return known.who
    const who = { caller: callerOf(row, credential, scopesOf), project: projectOf(row) }
    // Results for unknown project names are not cached: any caller could fill the memory with invented names.
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

/** A cached caller. It is valid as long as the database returns the same row for the credential. */
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

/** Cache key of a credential and a project. It does not contain the credential itself. */
function keyOf(credential: Credential, selection: Selection | undefined): string {
  const named = selection?.slug == null ? selection?.id : `=${selection.slug}`
  const where = selection ? `in ${named ?? ''}` : ''
  if (credential.kind === 'pat') return `${credential.hash.toString('base64')} ${where}`
  const { sessionId, userId, epoch, expiresAt } = credential.claims
  return `${sessionId} ${userId} ${epoch} ${expiresAt.getTime()} ${where}`
}

/**
 * Returns a function that parses scopes. It caches the parsed sets by their stored text: each request needs a set, and
 * there are few different texts.
 */
function rememberScopes(): (stored: string) => ReadonlySet<Scope> {
  const known = new Map<string, ReadonlySet<Scope>>()
  // Access tokens store scopes as they were requested, in any order and with repetitions, so the number of cached texts
  // is limited.
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

/** Returns the selection of a project by id or slug. Other texts need no check here, because they match no project. */
function selectionOf(selector: string | undefined): Selection {
  if (selector === undefined) return { id: null, slug: null }
  return isUuid(selector) ? { id: selector.toLowerCase(), slug: null } : { id: null, slug: selector }
}
