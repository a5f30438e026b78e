import { type Sql, type Tx, statement } from '../../db/db.ts'
import { variablesOf } from '../base/variables.ts'

export interface Group {
  readonly id: string
  readonly name: string
  readonly createdAt: Date
  readonly variables: number
  readonly apps: readonly string[]
}

const columns = `g.id, g.name, g.created_at AS "createdAt",
  (SELECT count(*)::int FROM env_group_value v WHERE v.group_id = g.id) AS variables,
  ARRAY(SELECT a.name FROM app_env_group x JOIN app a ON a.id = x.app_id
        WHERE x.group_id = g.id AND a.want = 'live' ORDER BY a.name) AS apps`
const listGroups = statement<Group>(
  'env.groups',
  `SELECT ${columns} FROM env_group g WHERE g.project_id = $1 ORDER BY g.name`,
)
const groupByName = statement<Group>(
  'env.group',
  `SELECT ${columns} FROM env_group g WHERE g.project_id = $1 AND g.name = $2`,
)
// Locks the apps before the group, because apps come first in the lock order (docs/engine.md).
const lockAttached = statement<{ id: string }>(
  'env.lockAttached',
  `SELECT a.id FROM app a WHERE a.id IN (SELECT x.app_id FROM app_env_group x JOIN env_group g ON g.id = x.group_id
     WHERE g.project_id = $1 AND g.name = $2) ORDER BY a.id FOR NO KEY UPDATE`,
)
const lockGroup = statement<{ id: string }>(
  'env.lockGroup',
  `SELECT id FROM env_group WHERE project_id = $1 AND name = $2 FOR UPDATE`,
)
const holdGroups = statement<{ id: string; name: string }>(
  'env.holdGroups',
  `SELECT id, name FROM env_group WHERE project_id = $1 AND name = ANY($2::text[]) ORDER BY id FOR SHARE`,
)
const touchApps = statement(
  'env.touchApps',
  `UPDATE app SET settings_changed_at = clock_timestamp() WHERE id = ANY($1::uuid[])`,
)
const insertGroup = statement(
  'env.insertGroup',
  `INSERT INTO env_group (id, project_id, name) SELECT $1, $2, $3
   WHERE (SELECT count(*) FROM env_group WHERE project_id = $2) < $4`,
)
const deleteGroup = statement('env.deleteGroup', `DELETE FROM env_group WHERE id = $1`)
const valuesOfGroup = statement<{ name: string; updatedAt: Date; plain: Buffer | null }>(
  'env.groupValues',
  `SELECT name, updated_at AS "updatedAt", CASE WHEN plain_at = updated_at THEN value END AS plain
   FROM env_group_value WHERE group_id = $1 ORDER BY name`,
)
const putValue = statement(
  'env.putGroupValue',
  `INSERT INTO env_group_value (group_id, name, value, updated_at, plain_at)
   VALUES ($1, $2, $3, now(), CASE WHEN $4::boolean THEN now() END)
   ON CONFLICT (group_id, name) DO UPDATE
     SET value = excluded.value, updated_at = excluded.updated_at, plain_at = excluded.plain_at`,
)
const deleteValue = statement('env.deleteGroupValue', `DELETE FROM env_group_value WHERE group_id = $1 AND name = $2`)
const sizeOfGroup = statement<{ names: number; bytes: number }>(
  'env.sizeOfGroup',
  `SELECT count(*)::int AS names, coalesce(sum(length(value) + length(name)), 0)::int AS bytes
   FROM env_group_value WHERE group_id = $1`,
)
const sizeOfApp = statement<{ app: string; names: number; bytes: number }>(
  'env.sizeOfApp',
  `SELECT (SELECT name FROM app WHERE id = $1) AS app, count(*)::int AS names,
     coalesce(sum(length(value) + length(name)), 0)::int AS bytes FROM ${variablesOf('$1')} every`,
)
const appOf = (lock: string) =>
  `SELECT a.id, a.name, (SELECT name FROM app main WHERE main.id = a.env_of) AS "envOf" FROM app a
   WHERE a.project_id = $1 AND a.name = $2 AND a.want = 'live' AND a.owner = 'user'${lock}`
export interface EnvApp {
  readonly id: string
  readonly name: string
  /** Name of the app whose variables this app uses; null: its own. */
  readonly envOf: string | null
}
const appByName = statement<EnvApp>('env.app', appOf(''))
const lockedApp = statement<EnvApp>('env.lockApp', appOf(' FOR UPDATE OF a'))
const groupsOfApp = statement<{ name: string; position: number }>(
  'env.groupsOfApp',
  `SELECT g.name, x.position FROM app_env_group x JOIN env_group g ON g.id = x.group_id
   WHERE x.app_id = $1 ORDER BY x.position`,
)
const detachAll = statement('env.detachAll', `DELETE FROM app_env_group WHERE app_id = $1`)
const attach = statement(
  'env.attach',
  `INSERT INTO app_env_group (app_id, group_id, position)
   SELECT $1, id, place::int FROM unnest($2::uuid[]) WITH ORDINALITY AS given (id, place)`,
)

export const list = (sql: Sql, projectId: string) => sql.rows(listGroups, [projectId])
export const byName = (sql: Sql, projectId: string, name: string) => sql.maybe(groupByName, [projectId, name])
/** Locks a group and the apps that it is attached to. Returns undefined if there is no such group. */
export async function lock(
  tx: Tx,
  projectId: string,
  name: string,
): Promise<{ readonly id: string; readonly appIds: readonly string[] } | undefined> {
  const appIds = (await tx.rows(lockAttached, [projectId, name])).map(({ id }) => id)
  const group = await tx.maybe(lockGroup, [projectId, name])
  return group && { id: group.id, appIds }
}
/** Returns the groups with these names, locked against changes until the transaction ends. */
export const hold = (tx: Tx, projectId: string, names: readonly string[]) => tx.rows(holdGroups, [projectId, names])
/**
 * Marks the apps as changed since their last deployment, so that users see that they need a new one. The caller must
 * hold the locks on the apps.
 */
export const settingsChanged = (tx: Tx, appIds: readonly string[]) => tx.run(touchApps, [appIds])
/**
 * Inserts a group. Returns false if the project already has the maximum number of groups (`most`).
 * @throws unique violation `env_group_name`
 */
export const insert = async (tx: Tx, group: { id: string; projectId: string; name: string }, most: number) =>
  (await tx.run(insertGroup, [group.id, group.projectId, group.name, most])) === 1
export const remove = (tx: Tx, id: string) => tx.run(deleteGroup, [id])
export const values = (sql: Sql, groupId: string) => sql.rows(valuesOfGroup, [groupId])
export const put = (tx: Tx, groupId: string, name: string, value: { sealed: Buffer; isPlain: boolean }) =>
  tx.run(putValue, [groupId, name, value.sealed, value.isPlain])
/** Deletes a variable of a group. Returns false if there is no such variable. */
export const removeValue = async (tx: Tx, groupId: string, name: string) =>
  (await tx.run(deleteValue, [groupId, name])) === 1
export const groupSize = (tx: Tx, groupId: string) => tx.one(sizeOfGroup, [groupId])
/**
 * Returns the number and the total size of the variables that the app's next deployment gets, including those of its
 * groups.
 */
export const appSize = (tx: Tx, appId: string) => tx.one(sizeOfApp, [appId])
export const app = (sql: Sql, projectId: string, name: string) => sql.maybe(appByName, [projectId, name])
export const lockApp = (tx: Tx, projectId: string, name: string) => tx.maybe(lockedApp, [projectId, name])
export const attached = (sql: Sql, appId: string) => sql.rows(groupsOfApp, [appId])
/** Attaches exactly these groups to the app, in this order. */
export async function attachAll(tx: Tx, appId: string, groupIds: readonly string[]): Promise<void> {
  await tx.run(detachAll, [appId])
  await tx.run(attach, [appId, groupIds])
}
