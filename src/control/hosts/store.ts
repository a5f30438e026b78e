import type { HostHeartbeat, HypervisorOffer } from '../../contract/agent.ts'
import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { Labels } from '../../lib/labels.ts'
import type { HostView } from '../scheduler/place.ts'
import type { PoolView } from '../scheduler/pools.ts'

export interface HostRow {
  readonly id: string
  readonly name: string
  readonly incarnation: string
  readonly version: string
  readonly arch: string
  readonly network: string
  readonly hypervisors: readonly HypervisorOffer[]
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly usedVcpus: number
  readonly usedMemoryMib: number
  readonly usedDiskMib: number
  readonly cordoned: boolean
  /** True while the host is drained: its VMs are moved or replaced, one by one. */
  readonly draining: boolean
  /**
   * Time at which the host had been silent for too long. A suspected host gets no new VMs, and is marked lost if it
   * stays silent.
   */
  readonly suspectedAt: Date | null
  /** Time at which the host was marked lost. Its VMs were abandoned then, and later reports about them are ignored. */
  readonly lostAt: Date | null
  readonly lastSeenAt: Date
  readonly createdAt: Date
  readonly up: boolean
  /** All labels of the host. A label that operators have set overrides the agent's label of the same name. */
  readonly labels: Labels
  readonly agentLabels: Labels
  /**
   * Number of VMs that belong to the host. `strays`: number of VMs that were abandoned when the host was lost and may
   * still run there.
   */
  readonly vms: number
  readonly strays: number
}

const columns = `id, name, incarnation, version, arch, network, hypervisors, vcpus, memory_mib AS "memoryMib",
  disk_mib AS "diskMib", used_vcpus AS "usedVcpus", used_memory_mib AS "usedMemoryMib", used_disk_mib AS "usedDiskMib",
  cordoned, draining, agent_labels || labels AS labels, agent_labels AS "agentLabels", suspected_at AS "suspectedAt", lost_at AS "lostAt", last_seen_at AS "lastSeenAt",
  created_at AS "createdAt", lost_at IS NULL AND last_seen_at > now() - make_interval(secs => $1) AS up,
  (SELECT count(*)::int FROM vm WHERE vm.host_id = host.id) AS vms,
  (SELECT count(*)::int FROM stray WHERE stray.host_id = host.id) AS strays`

const listHosts = statement<HostRow>(
  'hosts.list',
  `SELECT ${columns} FROM host WHERE removed_at IS NULL ORDER BY name, id`,
)
// Selects only the columns that a placement needs: also counting the VMs of a hundred hosts takes as long as all the
// rest of a batch of placements.
const listRooms = statement<HostView>(
  'hosts.rooms',
  `SELECT id, name, arch, hypervisors, vcpus, memory_mib AS "memoryMib", disk_mib AS "diskMib", used_vcpus AS "usedVcpus",
     used_memory_mib AS "usedMemoryMib", used_disk_mib AS "usedDiskMib", database_images AS "databaseImages", cordoned, agent_labels || labels AS labels,
     lost_at IS NULL AND last_seen_at > now() - make_interval(secs => $1) AS up
   FROM host WHERE removed_at IS NULL ORDER BY id`,
)
const findHost = statement<HostRow>(
  'hosts.find',
  `SELECT ${columns} FROM host WHERE removed_at IS NULL AND (id::text = $2 OR name = $2)`,
)
// The free space of a pool excludes the space into which its volumes may still grow.
const listPools = statement<PoolView>(
  'hosts.pools',
  `SELECT h.id AS "hostId", p.pool->>'name' AS name, (p.pool->>'shared')::boolean AS shared,
     (p.pool->>'encrypted')::boolean AS encrypted,
     floor((p.pool->>'freeBytes')::float8 / 1048576 - coalesce((
       SELECT sum(greatest(o.size_mib - o.used_bytes / 1048576, 0)) FROM volume o
       WHERE o.pool_name = p.pool->>'name' AND o.want = 'present' AND o.host_id IS NOT NULL
         AND (o.host_id = h.id OR NOT o.bound)), 0)::float8
       -- Volumes that move to the pool count until the move is committed or has ended.
       - coalesce((SELECT sum(o.size_mib) FROM volume_move x JOIN volume o ON o.id = x.volume_id
         WHERE x.target_host_id = h.id AND x.target_pool = p.pool->>'name' AND x.ended_at IS NULL AND x.state <> 'clearing'), 0)::float8) AS "roomMib"
   FROM host h, jsonb_array_elements(h.pools) AS p(pool) WHERE h.removed_at IS NULL`,
)
const lockHost = statement('hosts.lock', `SELECT id FROM host WHERE id = $1 FOR NO KEY UPDATE`)

// Stores what a heartbeat reports about the host. Also ends its suspicion or loss.
const upsertHost = statement(
  'hosts.upsert',
  `INSERT INTO host (id, name, incarnation, version, arch, network, hypervisors, vcpus, memory_mib, disk_mib, pools, database_images, agent_labels)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
   ON CONFLICT (id) DO UPDATE SET
     name = excluded.name, incarnation = excluded.incarnation, version = excluded.version, arch = excluded.arch,
     network = excluded.network, hypervisors = excluded.hypervisors, vcpus = excluded.vcpus,
     memory_mib = excluded.memory_mib, disk_mib = excluded.disk_mib, pools = excluded.pools,
     database_images = excluded.database_images, agent_labels = excluded.agent_labels, last_seen_at = now(), suspected_at = NULL,
     lost_at = NULL
   WHERE host.removed_at IS NULL`,
)
const touchHosts = statement(
  'hosts.touch',
  // Locks the rows in id order, like every statement that locks several hosts.
  `WITH heard AS (SELECT id FROM host WHERE id = ANY($1::uuid[]) AND removed_at IS NULL ORDER BY id FOR NO KEY UPDATE)
   UPDATE host SET last_seen_at = now(), suspected_at = NULL, lost_at = NULL FROM heard WHERE host.id = heard.id`,
)
const silentHosts = statement<{ id: string; name: string; overdue: boolean }>(
  'hosts.silent',
  `SELECT id, name, coalesce(suspected_at < now() - make_interval(secs => $1), false) AS overdue FROM host
   WHERE lost_at IS NULL AND removed_at IS NULL AND last_seen_at < now() - make_interval(secs => $1)`,
)
const suspectHost = statement(
  'hosts.suspect',
  `UPDATE host SET suspected_at = now() WHERE id = $1 AND suspected_at IS NULL
     AND last_seen_at < now() - make_interval(secs => $2)`,
)
// Marks only a host that is still suspected as lost; a heartbeat in the meantime has ended the suspicion.
const loseHost = statement(
  'hosts.lose',
  `UPDATE host SET lost_at = now() WHERE id = $1 AND lost_at IS NULL AND removed_at IS NULL
     AND suspected_at < now() - make_interval(secs => $2)`,
)
const removeHost = statement(
  'hosts.remove',
  `UPDATE host SET removed_at = now(), lost_at = coalesce(lost_at, now()), cordoned = true WHERE id = $1 AND removed_at IS NULL`,
)
const setLabels = statement('hosts.label', `UPDATE host SET labels = $2 WHERE id = $1`)
const setCordon = statement('hosts.cordon', `UPDATE host SET cordoned = $2, draining = $3 WHERE id = $1`)
export interface LostHost {
  readonly id: string
  readonly name: string
  /** Whether the host is marked as lost and was not removed. */
  readonly lost: boolean
  readonly removed: boolean
}
const lostHost = statement<LostHost>(
  'hosts.lost',
  `SELECT id, name, lost_at IS NOT NULL AND removed_at IS NULL AS lost, removed_at IS NOT NULL AS removed
   FROM host WHERE id = $1`,
)
const insertStray = statement(
  'hosts.insertStray',
  // If the VM is already a stray of this host, its resources are reserved twice there, so this releases one of the two
  // reservations.
  `WITH made AS (
     INSERT INTO stray (vm_id, host_id, vcpus, memory_mib, disk_mib) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING vm_id)
   UPDATE host SET used_vcpus = used_vcpus - $3, used_memory_mib = used_memory_mib - $4, used_disk_mib = used_disk_mib - $5
   WHERE id = $2 AND NOT EXISTS (SELECT FROM made)`,
)
// Deletes the strays that the host no longer has and releases their resources in one statement, so that they are
// released exactly once.
const settleStrays = statement<{ gone: number }>(
  'hosts.settleStrays',
  `WITH gone AS (
     DELETE FROM stray WHERE host_id = $1 AND vm_id <> ALL($2::uuid[]) RETURNING vcpus, memory_mib, disk_mib
   ), room AS (
     SELECT count(*)::int AS gone, coalesce(sum(vcpus), 0)::int AS vcpus, coalesce(sum(memory_mib), 0)::int AS memory_mib,
            coalesce(sum(disk_mib), 0)::int AS disk_mib FROM gone
   ), released AS (
     UPDATE host h SET used_vcpus = h.used_vcpus - room.vcpus, used_memory_mib = h.used_memory_mib - room.memory_mib,
                       used_disk_mib = h.used_disk_mib - room.disk_mib
     FROM room WHERE h.id = $1 AND room.gone > 0
   )
   SELECT gone FROM room`,
)

const strayOnHost = statement<{ is: boolean }>(
  'hosts.isStray',
  `SELECT EXISTS (SELECT FROM stray WHERE host_id = $1 AND vm_id = $2) AS is`,
)
// Releases the resources of a stray only if this statement deletes its row, so that they are released exactly once.
const settleStray = statement(
  'hosts.settleStray',
  `WITH gone AS (DELETE FROM stray WHERE host_id = $1 AND vm_id = $2 RETURNING vcpus, memory_mib, disk_mib)
   UPDATE host h SET used_vcpus = h.used_vcpus - gone.vcpus, used_memory_mib = h.used_memory_mib - gone.memory_mib,
                     used_disk_mib = h.used_disk_mib - gone.disk_mib FROM gone WHERE h.id = $1`,
)

const reserveRoom = statement(
  'hosts.reserve',
  `UPDATE host SET used_vcpus = used_vcpus + $2, used_memory_mib = used_memory_mib + $3, used_disk_mib = used_disk_mib + $4
   WHERE id = $1 AND NOT cordoned AND lost_at IS NULL AND removed_at IS NULL
     AND used_vcpus + $2 <= vcpus AND used_memory_mib + $3 <= memory_mib AND used_disk_mib + $4 <= disk_mib`,
)
const releaseRoom = statement(
  'hosts.release',
  `UPDATE host SET used_vcpus = used_vcpus - $2, used_memory_mib = used_memory_mib - $3, used_disk_mib = used_disk_mib - $4
   WHERE id = $1`,
)

interface Room {
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
}

/** Returns the storage pools of all hosts. */
export const pools = (sql: Sql) => sql.rows(listPools)
export const list = (sql: Sql, timeoutSeconds: number) => sql.rows(listHosts, [timeoutSeconds])
/** Returns all hosts in the form that the scheduler uses. */
export const rooms = (sql: Sql, timeoutSeconds: number) => sql.rows(listRooms, [timeoutSeconds])
/** Finds a host by id or name. */
export const find = (sql: Sql, timeoutSeconds: number, host: string) => sql.maybe(findHost, [timeoutSeconds, host])
export const lock = (tx: Tx, id: string) => tx.run(lockHost, [id])
/**
 * Returns the hosts that are silent for longer than the timeout. `overdue` is true for hosts that have also been
 * suspected for longer than the timeout.
 */
export const silent = (db: Db, timeoutSeconds: number) => db.rows(silentHosts, [timeoutSeconds])
export const suspect = (db: Db, id: string, timeoutSeconds: number) => db.run(suspectHost, [id, timeoutSeconds])
/** Marks a host as lost. Returns false when it has reported in the meantime. */
export const lose = async (tx: Tx, id: string, timeoutSeconds: number) =>
  (await tx.run(loseHost, [id, timeoutSeconds])) === 1
export const findLost = (sql: Sql, id: string) => sql.maybe(lostHost, [id])
export const remove = (tx: Tx, id: string) => tx.run(removeHost, [id])
export const cordon = (tx: Tx, id: string, state: { readonly cordoned: boolean; readonly draining: boolean }) =>
  tx.run(setCordon, [id, state.cordoned, state.draining])
/** Replaces all labels that operators have set. */
export const label = (tx: Tx, id: string, labels: Labels) => tx.run(setLabels, [id, JSON.stringify(labels)])
/**
 * Makes the VM a stray of its lost host: its resources stay reserved until the host reports it gone (`settle`).
 */
export const abandon = (tx: Tx, hostId: string, vm: Room & { readonly id: string }) =>
  tx.run(insertStray, [vm.id, hostId, vm.vcpus, vm.memoryMib, vm.diskMib])
/** Deletes the strays that the host no longer has, and releases their resources. Returns their number. */
export const settle = async (sql: Sql, hostId: string, present: readonly string[]) =>
  (await sql.one(settleStrays, [hostId, present])).gone

/** Returns whether the VM is a stray that may still run on the host. */
export const isStray = async (sql: Sql, hostId: string, vmId: string) => (await sql.one(strayOnHost, [hostId, vmId])).is
/** Releases the resources of a stray that the host reports as gone. Returns false when the VM is not a stray. */
export const settleOne = async (sql: Sql, hostId: string, vmId: string) =>
  (await sql.run(settleStray, [hostId, vmId])) === 1

export const upsert = (db: Db, heartbeat: HostHeartbeat, cpuOvercommit: number) =>
  db.run(upsertHost, [
    heartbeat.hostId,
    heartbeat.name,
    heartbeat.incarnation,
    heartbeat.version,
    heartbeat.arch,
    heartbeat.network,
    JSON.stringify(heartbeat.hypervisors),
    heartbeat.vcpus * cpuOvercommit,
    heartbeat.memoryMib,
    heartbeat.diskMib,
    JSON.stringify(heartbeat.pools ?? []),
    heartbeat.databaseImages ? JSON.stringify(heartbeat.databaseImages) : null,
    JSON.stringify(heartbeat.labels ?? {}),
  ])

export const touch = (db: Db, hostIds: readonly string[]) => db.run(touchHosts, [hostIds])

/**
 * Reserves resources on a host. Returns false when they are no longer free: the check and the change are one statement.
 */
export const reserve = async (tx: Tx, hostId: string, room: Room): Promise<boolean> =>
  (await tx.run(reserveRoom, [hostId, room.vcpus, room.memoryMib, room.diskMib])) === 1

export const release = (tx: Tx, hostId: string, room: Room) =>
  tx.run(releaseRoom, [hostId, room.vcpus, room.memoryMib, room.diskMib])
