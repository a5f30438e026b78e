import { randomBytes } from 'node:crypto'
import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { MemberRole } from '../http/operation.ts'
import type { Plan } from './plans.ts'
import { nextSlug, subnetOf, subnetRandomBytes } from './rules.ts'

export interface Project {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly plan: string
  readonly ipv6Prefix: string
  readonly want: 'live' | 'deleted'
  readonly createdAt: Date
  readonly updatedAt: Date
}

const columns = `p.id, p.slug, p.name, p.plan, p.ipv6_prefix AS "ipv6Prefix", p.want, p.created_at AS "createdAt", p.updated_at AS "updatedAt"`

const byId = statement<Project>('projects.byId', `SELECT ${columns} FROM project p WHERE p.id = $1`)
const listOf = statement<Project>(
  'projects.list',
  `SELECT ${columns} FROM project p JOIN project_member m ON m.project_id = p.id
   WHERE m.account_id = $1 AND p.want = 'live' AND ($2::uuid IS NULL OR p.id = $2) ORDER BY p.id DESC`,
)
const insert = statement<Project>(
  'projects.insert',
  `INSERT INTO project AS p (id, slug, name, plan, ipv6_prefix) SELECT $1, $2, $3, $4, $5
   WHERE NOT EXISTS (SELECT FROM retired_slug WHERE slug_hash = sha256($2::text::bytea))
   ON CONFLICT DO NOTHING RETURNING ${columns}`,
)
const insertMember = statement(
  'projects.addMember',
  `INSERT INTO project_member (project_id, account_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
)
const rename = statement<Project>(
  'projects.rename',
  `UPDATE project AS p SET name = $2, updated_at = now() WHERE id = $1 AND want = 'live' RETURNING ${columns}`,
)
const ipv6Prefix = statement<{ prefix: string }>(
  'projects.ipv6Prefix',
  `SELECT ipv6_prefix AS prefix FROM private_network`,
)
const lock = statement<{ plan: string }>(
  'projects.lock',
  // FOR NO KEY UPDATE, not FOR UPDATE: inserts of rows that reference the project take a key share lock on its row, and
  // must not wait for this lock.
  `SELECT plan FROM project WHERE id = $1 AND want = 'live' FOR NO KEY UPDATE`,
)
const lockLimits = statement<{ plan: string }>(
  'projects.lockLimits',
  // If the project's plan has no numeric limits, FOR SHARE only prevents changes of the project's row. PostgreSQL
  // checks the WHERE condition again after it gets a lock, so if the plan changes while the statement waits, neither
  // branch returns a row.
  `WITH uncounted AS (SELECT plan FROM project WHERE id = $1 AND want = 'live' AND plan = ANY($2::text[]) FOR SHARE),
     counted AS (SELECT plan FROM project WHERE id = $1 AND want = 'live' AND plan <> ALL($2::text[]) FOR NO KEY UPDATE)
   SELECT plan FROM uncounted UNION ALL SELECT plan FROM counted`,
)
const setPlan = statement(
  'projects.setPlan',
  `UPDATE project SET plan = $2, updated_at = now() WHERE id = $1 AND plan <> $2`,
)
const capped = statement<{ isCapped: boolean }>(
  'projects.capped',
  `SELECT capped_at IS NOT NULL AS "isCapped" FROM project WHERE id = $1`,
)
const markDeleted = statement(
  'projects.markDeleted',
  `UPDATE project SET want = 'deleted', updated_at = now() WHERE id = $1 AND want = 'live'`,
)
const remove = statement(
  'projects.remove',
  // Retires the slug of the deleted project: the registry still has images under this slug, so no other project may get
  // it.
  `WITH removed AS (DELETE FROM project WHERE id = $1 AND want = 'deleted' RETURNING slug)
   INSERT INTO retired_slug (slug_hash) SELECT sha256(slug::bytea) FROM removed ON CONFLICT DO NOTHING`,
)
const moveDefaults = statement(
  'projects.moveDefaults',
  `UPDATE account a SET default_project_id = (
     SELECT p.id FROM project_member m JOIN project p ON p.id = m.project_id
     WHERE m.account_id = a.id AND p.want = 'live' AND p.id <> $1 ORDER BY p.id LIMIT 1)
   WHERE a.default_project_id = $1 AND ($2::uuid IS NULL OR a.id = $2)`,
)
const setDefault = statement(
  'projects.setDefault',
  `UPDATE account SET default_project_id = $2 WHERE id = $1 AND default_project_id IS NULL`,
)
const lockAccount = statement('projects.lockAccount', `SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE`)
const countOwned = statement<{ count: number }>(
  'projects.countOwned',
  `SELECT count(*) AS count FROM project_member WHERE account_id = $1 AND role = 'owner'`,
)

export const project = (sql: Sql, id: string) => sql.maybe(byId, [id])
/** Returns the projects of a caller; for a token that is bound to a project, only that one. */
export const projectsOf = (db: Db, accountId: string, boundProjectId: string | null) =>
  db.rows(listOf, [accountId, boundProjectId])
export const renameProject = (tx: Tx, id: string, name: string) => tx.maybe(rename, [id, name])
export const addMember = async (tx: Tx, projectId: string, accountId: string, role: MemberRole) =>
  (await tx.run(insertMember, [projectId, accountId, role])) === 1
/** Returns the plan and locks the project until the transaction ends; undefined if it is deleted or being deleted. */
export const lockedPlan = async (tx: Tx, id: string) => (await tx.maybe(lock, [id]))?.plan
/** Returns true if the project's budget is used up. Then the project may not start anything new. */
export const isCapped = async (tx: Tx, id: string) => (await tx.maybe(capped, [id]))?.isCapped ?? false
/**
 * Returns the plan and locks it until the transaction ends. If the plan has numeric limits, other callers wait until
 * the transaction ends. Undefined if the project is deleted or being deleted.
 * @param uncounted plans without numeric limits
 */
export async function lockedLimits(tx: Tx, id: string, uncounted: readonly Plan[]): Promise<string | undefined> {
  const plan = (await tx.maybe(lockLimits, [id, uncounted]))?.plan
  // `lockLimits` returns no row if another transaction has just changed the plan; `lockedPlan` reads the new one.
  return plan ?? lockedPlan(tx, id)
}

/**
 * Changes the plan; returns false if the project already has it. The caller must hold the lock of `lockedPlan`. A
 * smaller plan deletes nothing, but refuses new resources.
 */
export const changePlan = async (tx: Tx, id: string, plan: Plan) => (await tx.run(setPlan, [id, plan])) === 1
/** Marks the project as deleted. Returns false if it was already marked. */
export const wantDeleted = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const removeProject = (tx: Tx, id: string) => tx.run(remove, [id])
/**
 * For accounts whose default project is this one (or only for `accountId`), makes their oldest other project the
 * default; none if they have no other.
 */
export const moveDefaultsAway = (tx: Tx, projectId: string, accountId: string | null = null) =>
  tx.run(moveDefaults, [projectId, accountId])
export async function countOwnedLocked(tx: Tx, accountId: string): Promise<number> {
  await tx.run(lockAccount, [accountId])
  return (await tx.one(countOwned, [accountId])).count
}

export interface NewProject {
  readonly name: string
  /** Desired slug; random characters are appended if another project has it. */
  readonly slug: string
  readonly plan: string
  readonly ownerId: string
}

/**
 * Number of attempts to find a free slug and subnet. Each attempt chooses 16 random bits of the slug and about 16 of
 * the subnet, so twenty collisions in a row mean that the IPv6 prefix has almost no free subnets.
 */
const tries = 20

/** Creates the project with its owner. It becomes the owner's default project if the owner has none. */
export async function createProject(tx: Tx, desired: NewProject): Promise<Project> {
  const { prefix } = await tx.one(ipv6Prefix)
  for (let i = 0; i < tries; i++) {
    const slug = i === 0 ? desired.slug : nextSlug(desired.slug, randomBytes(2))
    const subnet = subnetOf(prefix, randomBytes(subnetRandomBytes))
    const made = await tx.maybe(insert, [newId(), slug, desired.name, desired.plan, subnet])
    if (!made) continue
    await addMember(tx, made.id, desired.ownerId, 'owner')
    await tx.run(setDefault, [desired.ownerId, made.id])
    return made
  }
  throw new Error(`no free slug like "${desired.slug}", or no free /64 in ${prefix}: see MOTE_IPV6_PREFIX`)
}
