import type { HostBeat, HypervisorOffer } from '../../contract/agent.ts'
import { type Db, type Tx, statement } from '../../db/db.ts'

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
  readonly lastSeenAt: Date
  readonly up: boolean
}

const columns = `id, name, incarnation, version, arch, network, hypervisors, vcpus, memory_mib AS "memoryMib",
  disk_mib AS "diskMib", used_vcpus AS "usedVcpus", used_memory_mib AS "usedMemoryMib", used_disk_mib AS "usedDiskMib",
  cordoned, last_seen_at AS "lastSeenAt", last_seen_at > now() - make_interval(secs => $1) AS up`

const listHosts = statement<HostRow>('hosts.list', `SELECT ${columns} FROM host ORDER BY name, id`)

// Capacity never shrinks below what is already promised: the CHECK-free way to keep "used <= total" true for what runs.
const upsertHost = statement(
  'hosts.upsert',
  `INSERT INTO host (id, name, incarnation, version, arch, network, hypervisors, vcpus, memory_mib, disk_mib)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
   ON CONFLICT (id) DO UPDATE SET
     name = excluded.name, incarnation = excluded.incarnation, version = excluded.version, arch = excluded.arch,
     network = excluded.network, hypervisors = excluded.hypervisors, vcpus = excluded.vcpus,
     memory_mib = excluded.memory_mib, disk_mib = excluded.disk_mib, last_seen_at = now()`,
)
const touchHosts = statement('hosts.touch', `UPDATE host SET last_seen_at = now() WHERE id = ANY($1::uuid[])`)

const reserveRoom = statement(
  'hosts.reserve',
  `UPDATE host SET used_vcpus = used_vcpus + $2, used_memory_mib = used_memory_mib + $3, used_disk_mib = used_disk_mib + $4
   WHERE id = $1 AND NOT cordoned
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

export const list = (db: Db, timeoutSeconds: number) => db.rows(listHosts, [timeoutSeconds])

export const upsert = (db: Db, beat: HostBeat, cpuOvercommit: number) =>
  db.run(upsertHost, [
    beat.hostId,
    beat.name,
    beat.incarnation,
    beat.version,
    beat.arch,
    beat.network,
    JSON.stringify(beat.hypervisors),
    beat.vcpus * cpuOvercommit,
    beat.memoryMib,
    beat.diskMib,
  ])

export const touch = (db: Db, hostIds: readonly string[]) => db.run(touchHosts, [hostIds])

/** False when the room is gone meanwhile: the condition and the change are one statement. */
export const reserve = async (tx: Tx, hostId: string, room: Room): Promise<boolean> =>
  (await tx.run(reserveRoom, [hostId, room.vcpus, room.memoryMib, room.diskMib])) === 1

export const release = (tx: Tx, hostId: string, room: Room) =>
  tx.run(releaseRoom, [hostId, room.vcpus, room.memoryMib, room.diskMib])
