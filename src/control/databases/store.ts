import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { BranchFacts, DatabaseShape } from './rules.ts'

export interface Database {
  readonly id: string
  readonly projectId: string
  readonly name: string
  readonly engine: string
  readonly version: number
  readonly backend: 'volume' | 'neon'
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly settings: Readonly<Record<string, string>>
  /** The owner's password, encrypted for the purpose `database.password`. */
  readonly password: Buffer
  /** Revision of the owner's password. */
  readonly passwordRevision: number
  /** Backup target, encrypted for the purpose `database.backup_target`; null: each branch has a backup volume. */
  readonly backupTarget: Buffer | null
  readonly tenantId: string
  readonly tenantGen: number
  /** Id of the page server that stores the tenant; null if the database stores its data on volumes. */
  readonly storageNode: number | null
  readonly want: 'running' | 'suspended' | 'deleted'
  readonly revision: number
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** A branch with the columns and facts that its status and its workflow need. */
export interface Branch extends BranchFacts {
  readonly id: string
  readonly databaseId: string
  readonly databaseName: string
  readonly projectId: string
  readonly name: string
  /**
   * `drill`: a branch that tests a backup by restoring it. `spare`: a branch created in advance for the next request of
   * a branch from its snapshot.
   */
  readonly kind: 'user' | 'drill' | 'spare'
  readonly isCurrent: boolean
  readonly timelineId: string
  readonly previousTimelineId: string | null
  readonly parentId: string | null
  readonly fromSnapshotId: string | null
  readonly fromMoment: string | null
  readonly appId: string | null
  /** True if the branch's app still exists, possibly while it is being removed. */
  readonly hasApp: boolean
  readonly dataVolumeId: string | null
  readonly backupVolumeId: string | null
  readonly restoreSnapshotId: string | null
  /** Instant to which the branch is restored; null if it is restored from a snapshot. */
  readonly restoreMoment: string | null
  /** When the branch was last restored. Older backups contain the history before that restore. */
  readonly restoredAt: Date | null
  readonly revision: number
  readonly error: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly database: Omit<Database, 'password' | 'backupTarget' | 'createdAt' | 'updatedAt'>
  /** The owner's password, encrypted as in `Database`. */
  readonly password: Buffer
  readonly backupTarget: Buffer | null
  /** Revision of the password that the branch's server has. */
  readonly passwordRevision: number
  readonly projectSlug: string
  readonly ipv6Prefix: string
  /** The VM that serves the branch or is starting to. */
  readonly vm: BranchVm | null
  /** Unfinished deployments of the branch's app. */
  readonly deployments: readonly {
    readonly id: string
    readonly outcome: string | null
    readonly error: string | null
  }[]
}

export interface BranchVm {
  readonly id: string
  readonly hostId: string | null
  readonly healthy: boolean
  readonly endpointHost: string | null
  readonly endpointPort: number | null
}

const databaseColumns = `d.id, d.project_id AS "projectId", d.name, d.engine, d.engine_version AS version, d.backend, d.vcpus,
  d.memory_mib AS "memoryMib", d.disk_mib AS "diskMib", d.settings, d.password, d.password_revision AS "passwordRevision", d.backup_target AS "backupTarget", d.tenant_id AS "tenantId",
  d.tenant_gen AS "tenantGen", d.storage_node AS "storageNode", d.want, d.revision, d.created_at AS "createdAt", d.updated_at AS "updatedAt"`
const branchColumns = `b.id, b.database_id AS "databaseId", d.name AS "databaseName", b.project_id AS "projectId", b.name, b.kind,
  b.is_current AS "isCurrent", b.timeline_id AS "timelineId", b.previous_timeline_id AS "previousTimelineId", b.parent_id AS "parentId",
  b.from_snapshot_id AS "fromSnapshotId", b.from_moment AS "fromMoment", b.app_id AS "appId",
  b.data_volume_id AS "dataVolumeId", b.backup_volume_id AS "backupVolumeId", b.want, b.restores, b.restored,
  b.restore_snapshot_id AS "restoreSnapshotId", b.restore_moment AS "restoreMoment", b.restored_at AS "restoredAt", b.revision, b.ready_at AS "readyAt", b.answers, b.error,
  b.created_at AS "createdAt", b.updated_at AS "updatedAt", d.want AS "databaseWant", m.phase, d.password, d.backup_target AS "backupTarget", b.password_revision AS "passwordRevision",
  jsonb_build_object('id', d.id, 'projectId', d.project_id, 'name', d.name, 'engine', d.engine, 'version', d.engine_version,
    'backend', d.backend, 'vcpus', d.vcpus, 'memoryMib', d.memory_mib, 'diskMib', d.disk_mib, 'settings', d.settings,
    'tenantId', d.tenant_id, 'tenantGen', d.tenant_gen, 'storageNode', d.storage_node, 'want', d.want, 'revision', d.revision,
    'passwordRevision', d.password_revision) AS database,
  EXISTS (SELECT FROM app a WHERE a.id = b.app_id) AS "hasApp", p.slug AS "projectSlug", p.ipv6_prefix AS "ipv6Prefix", coalesce(v.healthy, false) AS healthy,
  CASE WHEN v.id IS NOT NULL THEN jsonb_build_object('id', v.id, 'hostId', v.host_id, 'healthy', v.healthy,
    'endpointHost', v.endpoint_host, 'endpointPort', v.endpoint_port) END AS vm,
  coalesce((SELECT jsonb_agg(jsonb_build_object('id', o.id, 'outcome', o.outcome, 'error', o.error_message) ORDER BY o.id)
    FROM deployment o WHERE o.app_id = b.app_id), '[]'::jsonb) AS deployments`
const branchJoined = `FROM branch b JOIN database d ON d.id = b.database_id JOIN project p ON p.id = b.project_id
  LEFT JOIN machine m ON m.kind = 'database' AND m.id = b.id
  LEFT JOIN LATERAL (SELECT * FROM vm WHERE vm.app_id = b.app_id AND vm.want <> 'absent' ORDER BY vm.id DESC LIMIT 1) v ON true`

const databaseById = statement<Database>('databases.byId', `SELECT ${databaseColumns} FROM database d WHERE d.id = $1`)
const databaseInProject = statement<Database>(
  'databases.inProject',
  `SELECT ${databaseColumns} FROM database d WHERE d.project_id = $1 AND d.id = $2 AND d.want <> 'deleted'`,
)
const lockDatabase = statement<Database>(
  'databases.lock',
  `SELECT ${databaseColumns} FROM database d WHERE d.project_id = $1 AND d.id = $2 AND d.want <> 'deleted' FOR UPDATE`,
)
const databasesOfProject = statement<Database>(
  'databases.ofProject',
  `SELECT ${databaseColumns} FROM database d WHERE d.project_id = $1 ORDER BY d.id DESC`,
)
const insertDatabase = statement(
  'databases.insert',
  `INSERT INTO database (id, project_id, name, engine, engine_version, backend, vcpus, memory_mib, disk_mib, settings, password, tenant_id, storage_node)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
)
const tenantsOfNodes = statement<{ node: number; count: number }>(
  'databases.tenantsOfNodes',
  `SELECT n.node, (SELECT count(*)::int FROM database d WHERE d.storage_node = n.node AND d.want <> 'deleted') AS count
   FROM unnest($1::bigint[]) AS n (node)`,
)
const changeDatabase = statement(
  'databases.change',
  `UPDATE database SET vcpus = $2, memory_mib = $3, settings = $4, want = $5, revision = revision + $6, disk_mib = $7,
     updated_at = now() WHERE id = $1 AND want <> 'deleted'`,
)
const markDeleted = statement(
  'databases.markDeleted',
  `UPDATE database SET want = 'deleted', updated_at = now() WHERE id = $1 AND want <> 'deleted'`,
)
const countDatabases = statement<{ count: number }>(
  'databases.count',
  `SELECT count(*)::int AS count FROM database WHERE project_id = $1 AND want <> 'deleted'`,
)
const liveIds = statement<{ id: string }>(
  'databases.liveIds',
  `SELECT id FROM database WHERE project_id = $1 AND want <> 'deleted'`,
)
const remainingDatabases = statement<{ count: number }>(
  'databases.remaining',
  `SELECT count(*)::int AS count FROM database WHERE project_id = $1`,
)
const lockById = statement('databases.lockById', `SELECT id FROM database WHERE id = $1 FOR UPDATE`)
const removeEmpty = statement(
  'databases.removeEmpty',
  `DELETE FROM database d WHERE d.id = $1 AND d.want = 'deleted' AND NOT EXISTS (SELECT FROM branch WHERE database_id = d.id)`,
)

const branchById = statement<Branch>('databases.branch', `SELECT ${branchColumns} ${branchJoined} WHERE b.id = $1`)
const branchesOfDatabase = statement<Branch>(
  'databases.branches',
  `SELECT ${branchColumns} ${branchJoined} WHERE b.database_id = $1 AND b.kind = 'user' ORDER BY b.id DESC`,
)
const currentBranches = statement<Branch>(
  'databases.currentBranches',
  `SELECT ${branchColumns} ${branchJoined} WHERE b.database_id = ANY($1::uuid[]) AND b.is_current`,
)
const branchIds = statement<{ id: string }>('databases.branchIds', `SELECT id FROM branch WHERE database_id = $1`)
export const byId = (sql: Sql, id: string) => sql.maybe(databaseById, [id])
export const inProject = (sql: Sql, projectId: string, id: string) => sql.maybe(databaseInProject, [projectId, id])
export const lock = (tx: Tx, projectId: string, id: string) => tx.maybe(lockDatabase, [projectId, id])
export const list = (sql: Sql, projectId: string) => sql.rows(databasesOfProject, [projectId])
export const insert = (
  tx: Tx,
  d: DatabaseShape & Pick<Database, 'id' | 'projectId' | 'name' | 'backend' | 'password' | 'tenantId' | 'storageNode'>,
) =>
  tx.run(insertDatabase, [
    d.id,
    d.projectId,
    d.name,
    d.engine,
    d.version,
    d.backend,
    d.vcpus,
    d.memoryMib,
    d.diskMib,
    { ...d.settings },
    d.password,
    d.tenantId,
    d.storageNode,
  ])
/** Returns the number of tenants of each page server. */
export const tenantCounts = async (tx: Tx, nodes: readonly number[]): Promise<ReadonlyMap<number, number>> =>
  new Map((await tx.rows(tenantsOfNodes, [nodes])).map(({ node, count }) => [node, count]))
/** Changes a database. `restarts`: the change requires a restart of the database's VMs. */
export const change = (
  tx: Tx,
  id: string,
  to: Pick<Database, 'vcpus' | 'memoryMib' | 'diskMib' | 'settings' | 'want'> & { readonly restarts: boolean },
) => tx.run(changeDatabase, [id, to.vcpus, to.memoryMib, { ...to.settings }, to.want, to.restarts ? 1 : 0, to.diskMib])
/** Marks the database for deletion. Returns false when it was already being deleted. */
export const startDeleting = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const count = async (tx: Tx, projectId: string) => (await tx.one(countDatabases, [projectId])).count
export const idsInProject = async (sql: Sql, projectId: string) =>
  (await sql.rows(liveIds, [projectId])).map(row => row.id)
export const remaining = async (db: Db, projectId: string) => (await db.one(remainingDatabases, [projectId])).count
/**
 * Deletes the row of a database that has no branches. Call `lockForRemoval` first: otherwise, if its last two branches
 * are removed at the same time, each transaction still sees the other branch, and the row remains.
 */
export const removeWhenEmpty = (tx: Tx, id: string) => tx.run(removeEmpty, [id])
export const lockForRemoval = (tx: Tx, id: string) => tx.rows(lockById, [id])

export const branch = (sql: Sql, id: string) => sql.maybe(branchById, [id])
/** Returns the branches of a database, newest first. */
export const branches = (sql: Sql, databaseId: string) => sql.rows(branchesOfDatabase, [databaseId])
/** Returns the current branch of each database, by the database's id. */
export const current = async (sql: Sql, databaseIds: readonly string[]) =>
  new Map((await sql.rows(currentBranches, [databaseIds])).map(row => [row.databaseId, row]))
export const branchIdsOf = async (sql: Sql, databaseId: string) =>
  (await sql.rows(branchIds, [databaseId])).map(row => row.id)
