/** Statements of the authentication hot path: one round trip resolves a credential to its caller and project. */
import { type Db, type Param, statement } from '../../db/db.ts'
import type { MemberRole } from '../http/operation.ts'

export interface PrincipalRow {
  readonly userId: string
  readonly email: string
  readonly role: 'Admin' | 'User'
  /** Scopes of an access token, separated by spaces; null for a session, which has all scopes. */
  readonly scopes: string | null
  readonly patId: string | null
  /** Expiry of an access token; null for a session and for a token without an expiry. */
  readonly expiresAt: Date | null
  readonly boundProjectId: string | null
}

export interface ProjectRow {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly memberRole: MemberRole
}

export interface PrincipalInProjectRow extends PrincipalRow {
  /** Id of the selected project; null if it does not exist, is being deleted, or the caller is not a member. */
  readonly projectId: string | null
  readonly projectSlug: string
  readonly projectName: string
  readonly memberRole: MemberRole
}

export interface SessionKey {
  readonly sessionId: string
  readonly userId: string
  readonly epoch: number
}

/**
 * The project that the request names, by id or slug. If both are null, it is the token's project or else the account's
 * default project.
 */
export interface Selection {
  readonly id: string | null
  readonly slug: string | null
}

const sessionPrincipal = `a.id AS "userId", a.email, a.role, NULL::text AS scopes, NULL::uuid AS "patId", NULL::timestamptz AS "expiresAt", NULL::uuid AS "boundProjectId"`
const patPrincipal = `a.id AS "userId", a.email, a.role, array_to_string(t.scopes, ' ') AS scopes, t.id AS "patId", t.expires_at AS "expiresAt", t.project_id AS "boundProjectId"`

const fromSession = `FROM session s JOIN account a ON a.id = s.account_id`
const whereSession = `WHERE s.id = $1 AND a.id = $2 AND a.epoch = $3 AND s.revoked_at IS NULL`
const fromPat = `FROM pat t JOIN account a ON a.id = t.account_id`
const wherePat = `WHERE t.hash = $1 AND (t.expires_at IS NULL OR t.expires_at > now())`

const projectColumns = `p.id AS "projectId", p.slug AS "projectSlug", p.name AS "projectName", m.role AS "memberRole"`
const joinProject = (id: string, slug: string, fallback: string, bound: string) => `
  LEFT JOIN (project p JOIN project_member m ON m.project_id = p.id AND p.want = 'live')
    ON m.account_id = a.id AND p.id = CASE
      WHEN ${id}::uuid IS NOT NULL THEN ${id}::uuid
      WHEN ${slug}::text IS NOT NULL THEN (SELECT id FROM project WHERE slug = ${slug}::text)
      ELSE ${fallback} END
    AND (${bound})`

/**
 * The authentication query may be followed by one statement of the request (its speculative read), on the same
 * connection and in the same round trip (docs/decisions/0073-pipelined-reads-and-writes.md).
 */
const leads = { leads: 1 } as const
const bySession = statement<PrincipalRow>(
  'auth.bySession',
  `SELECT ${sessionPrincipal} ${fromSession} ${whereSession}`,
  leads,
)
const byPat = statement<PrincipalRow>('auth.byPat', `SELECT ${patPrincipal} ${fromPat} ${wherePat}`, leads)
const bySessionInProject = statement<PrincipalInProjectRow>(
  'auth.bySessionInProject',
  `SELECT ${sessionPrincipal}, ${projectColumns} ${fromSession}
   ${joinProject('$4', '$5', 'a.default_project_id', 'true')} ${whereSession}`,
  leads,
)
const byPatInProject = statement<PrincipalInProjectRow>(
  'auth.byPatInProject',
  `SELECT ${patPrincipal}, ${projectColumns} ${fromPat}
   ${joinProject('$2', '$3', 'coalesce(t.project_id, a.default_project_id)', 't.project_id IS NULL OR t.project_id = p.id')}
   ${wherePat}`,
  leads,
)
const projectOfCaller = statement<ProjectRow>(
  'auth.projectOfCaller',
  `SELECT p.id, p.slug, p.name, m.role AS "memberRole"
   FROM account a JOIN project_member m ON m.account_id = a.id
   JOIN project p ON p.id = m.project_id AND p.want = 'live'
   WHERE a.id = $1 AND ($2::uuid IS NULL OR p.id = $2) AND p.id = CASE
     WHEN $3::uuid IS NOT NULL THEN $3::uuid
     WHEN $4::text IS NOT NULL THEN (SELECT id FROM project WHERE slug = $4)
     ELSE coalesce($2, a.default_project_id) END`,
)
const touchPats = statement(
  'auth.touchPats',
  `UPDATE pat SET last_used_at = greatest(pat.last_used_at, used.at)
   FROM unnest($1::uuid[], $2::timestamptz[]) AS used (id, at) WHERE pat.id = used.id`,
)

export const principalBySession = (db: Db, session: SessionKey) =>
  db.maybe(bySession, [session.sessionId, session.userId, session.epoch])
export const principalByPat = (db: Db, hash: Buffer) => db.maybe(byPat, [hash])
export const principalBySessionInProject = (db: Db, session: SessionKey, selection: Selection) =>
  db.maybe(bySessionInProject, [session.sessionId, session.userId, session.epoch, selection.id, selection.slug])
export const principalByPatInProject = (db: Db, hash: Buffer, selection: Selection) =>
  db.maybe(byPatInProject, [hash, selection.id, selection.slug])
export const projectFor = (db: Db, userId: string, boundProjectId: string | null, selection: Selection) =>
  db.maybe(projectOfCaller, [userId, boundProjectId, selection.id, selection.slug])

export function recordPatUse(db: Db, uses: ReadonlyMap<string, Date>): Promise<number> {
  const params: Param[] = [[...uses.keys()], [...uses.values()]]
  return db.run(touchPats, params)
}
