/**
 * Versions of the variables of an app or a group. Each version has the values of all variables, so that it can be
 * restored.
 */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { accountName } from '../http/account-name.ts'

export type OwnerKind = 'app' | 'group'

export interface EnvVersion {
  readonly version: number
  readonly createdAt: Date
  /**
   * Name or e-mail address of the account that made the change. Null: the account is unknown, or this version is the
   * state before the first recorded change.
   */
  readonly author: string | null
  readonly set: readonly string[]
  readonly removed: readonly string[]
  /** Number of the version that was restored, if this version is the result of a restore. */
  readonly restored: number | null
}

const tables = { app: 'app_env', group: 'env_group_value' } as const

function statementsOf(kind: OwnerKind) {
  const [table, column] = [tables[kind], `${kind}_id`] as const
  const plain = (row: string) => `${row}.plain_at IS NOT DISTINCT FROM ${row}.updated_at`
  return {
    newest: statement<{ version: number }>(
      `env.newestVersion.${kind}`,
      `SELECT coalesce(max(version), 0)::int AS version FROM env_version WHERE ${column} = $1`,
    ),
    names: statement<{ name: string }>(
      `env.names.${kind}`,
      `SELECT name FROM ${table} WHERE ${column} = $1 ORDER BY name`,
    ),
    insert: statement(
      `env.insertVersion.${kind}`,
      `INSERT INTO env_version (id, ${column}, version, author_id, set_names, removed_names, restored)
       VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    ),
    keep: statement(
      `env.keepValues.${kind}`,
      `INSERT INTO env_version_value (version_id, name, value, plain)
       SELECT $1, t.name, t.value, ${plain('t')} FROM ${table} t WHERE t.${column} = $2`,
    ),
    prune: statement(`env.pruneVersions.${kind}`, `DELETE FROM env_version WHERE ${column} = $1 AND version <= $2`),
    list: statement<EnvVersion>(
      `env.versions.${kind}`,
      `SELECT v.version, v.created_at AS "createdAt",
         (SELECT ${accountName('who')} FROM account who WHERE who.id = v.author_id) AS author,
         v.set_names AS set, v.removed_names AS removed, v.restored
       FROM env_version v WHERE v.${column} = $1 ORDER BY v.version DESC`,
    ),
    find: statement<{ id: string }>(
      `env.findVersion.${kind}`,
      `SELECT id FROM env_version WHERE ${column} = $1 AND version = $2`,
    ),
    removeOthers: statement<{ name: string }>(
      `env.removeOthers.${kind}`,
      `DELETE FROM ${table} t WHERE t.${column} = $1
         AND NOT EXISTS (SELECT FROM env_version_value v WHERE v.version_id = $2 AND v.name = t.name) RETURNING t.name`,
    ),
    setKept: statement<{ name: string }>(
      `env.setKept.${kind}`,
      `INSERT INTO ${table} AS t (${column}, name, value, updated_at, plain_at)
       SELECT $1, name, value, now(), CASE WHEN plain THEN now() END FROM env_version_value WHERE version_id = $2
       ON CONFLICT (${column}, name) DO UPDATE
         SET value = excluded.value, updated_at = excluded.updated_at, plain_at = excluded.plain_at
         WHERE (t.value, ${plain('t')}) IS DISTINCT FROM (excluded.value, excluded.plain_at IS NOT NULL)
       RETURNING t.name`,
    ),
  }
}

const statements = { app: statementsOf('app'), group: statementsOf('group') } as const

/** Number of versions that are kept; earlier ones are deleted. */
const keptVersions = 50

export interface EnvChange {
  readonly set: readonly string[]
  readonly removed: readonly string[]
  readonly restored?: number
}

interface Owner {
  readonly kind: OwnerKind
  readonly id: string
  /** Account that makes the change. */
  readonly authorId: string | undefined
}

/**
 * Runs `change` and records the resulting variables as the next version. The caller must hold the lock on the app or
 * group.
 */
export async function changeVariables<T extends EnvChange | undefined>(
  tx: Tx,
  { kind, id, authorId }: Owner,
  change: () => Promise<T>,
): Promise<T> {
  const { newest, names } = statements[kind]
  let { version } = await tx.one(newest, [id])
  if (version === 0) {
    // Record the variables that were set before versions existed as the first version.
    const set = (await tx.rows(names, [id])).map(({ name }) => name)
    if (set.length > 0) await keepVersion(tx, { kind, id, authorId: undefined }, ++version, { set, removed: [] })
  }
  const made = await change()
  if (made && made.set.length + made.removed.length > 0)
    await keepVersion(tx, { kind, id, authorId }, version + 1, made)
  return made
}

async function keepVersion(tx: Tx, { kind, id, authorId }: Owner, version: number, change: EnvChange): Promise<void> {
  const { insert, keep, prune } = statements[kind]
  const versionId = newId()
  const { set, removed, restored } = change
  await tx.run(insert, [versionId, id, version, authorId ?? null, set, removed, restored ?? null])
  await tx.run(keep, [versionId, id])
  await tx.run(prune, [id, version - keptVersions])
}

/**
 * Sets all variables to those of the version. Returns undefined if there is no such version. The caller must hold the
 * lock on the app or group.
 */
export const restoreVersion = (tx: Tx, owner: Owner, version: number): Promise<EnvChange | undefined> =>
  changeVariables(tx, owner, async () => {
    const { find, removeOthers, setKept } = statements[owner.kind]
    const found = await tx.maybe(find, [owner.id, version])
    if (!found) return undefined
    const removed = await tx.rows(removeOthers, [owner.id, found.id])
    const set = await tx.rows(setKept, [owner.id, found.id])
    const names = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name).toSorted()
    return { set: names(set), removed: names(removed), restored: version }
  })

/** Returns the versions, newest first. */
export const listVersions = (sql: Sql, kind: OwnerKind, id: string) => sql.rows(statements[kind].list, [id])
