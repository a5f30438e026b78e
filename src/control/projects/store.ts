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
  `INSERT INTO project AS p (id, slug, name, plan, ipv6_prefix) VALUES ($1, $2, $3, $4, $5)
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
  // NO KEY: inserts of rows that reference the project take a key share of it, and must not wait for us or we for them.
  `SELECT plan FROM project WHERE id = $1 AND want = 'live' FOR NO KEY UPDATE`,
)
const lockLimits = statement<{ plan: string }>(
  'projects.lockLimits',
  // A plan that counts nothing is only kept from changing. Conditions are looked at again once a lock is had, so a plan
  // that changes meanwhile is in neither part.
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
const remove = statement('projects.remove', `DELETE FROM project WHERE id = $1 AND want = 'deleted'`)
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
/** Of a caller; a token that is bound to a project sees that one alone. */
export const projectsOf = (db: Db, accountId: string, boundProjectId: string | null) =>
  db.rows(listOf, [accountId, boundProjectId])
export const renameProject = (tx: Tx, id: string, name: string) => tx.maybe(rename, [id, name])
export const addMember = async (tx: Tx, projectId: string, accountId: string, role: MemberRole) =>
  (await tx.run(insertMember, [projectId, accountId, role])) === 1
/** The plan, with the project locked until the transaction ends; undefined when it is gone or being deleted. */
export const lockedPlan = async (tx: Tx, id: string) => (await tx.maybe(lock, [id]))?.plan
/** Its budget is used up: nothing new may run. */
export const isCapped = async (tx: Tx, id: string) => (await tx.maybe(capped, [id]))?.isCapped ?? false
/**
 * The plan, which stays what it is until the transaction ends; of a plan that counts something, no other transaction
 * that counts goes on before. Undefined when the project is gone or being deleted.
 * @param uncounted plans that count nothing
 */
export async function lockedLimits(tx: Tx, id: string, uncounted: readonly Plan[]): Promise<string | undefined> {
  const plan = (await tx.maybe(lockLimits, [id, uncounted]))?.plan
  // A plan that changed just then is in neither part; this finds it whatever it is.
  return plan ?? lockedPlan(tx, id)
}

/** Call it while `lockedPlan` holds the project. Nothing is deleted by a smaller plan; more is refused. */
export const changePlan = async (tx: Tx, id: string, plan: Plan) => (await tx.run(setPlan, [id, plan])) === 1
/** False when it was marked already. */
export const wantDeleted = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const removeProject = (tx: Tx, id: string) => tx.run(remove, [id])
/** Whoever has it as default (or only `accountId`) gets the oldest other project of theirs, or none. */
export const moveDefaultsAway = (tx: Tx, projectId: string, accountId: string | null = null) =>
  tx.run(moveDefaults, [projectId, accountId])
export async function countOwnedLocked(tx: Tx, accountId: string): Promise<number> {
  await tx.run(lockAccount, [accountId])
  return (await tx.one(countOwned, [accountId])).count
}

export interface NewProject {
  readonly name: string
  /** Wished for; gets random characters when it is taken. */
  readonly slug: string
  readonly plan: string
  readonly ownerId: string
}

/** 16 random bits behind the slug, 16 or so in the subnet: twenty misses in a row mean that the prefix is full. */
const tries = 20

/** The project with its owner; becomes the owner's default one if there is none yet. */
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
