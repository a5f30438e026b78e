import { type Db, type Sql, statement } from '../../db/db.ts'
import type { MeshHost, NetworkName, NetworkState, PlacedVm, ProjectNetworks } from './hosts.ts'

const prefixNow = statement<{ prefix: string; version: number }>(
  'network.prefix',
  `SELECT ipv6_prefix AS prefix, floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS version FROM private_network`,
)
const setPrefix = statement('network.setPrefix', `UPDATE private_network SET ipv6_prefix = $1 WHERE ipv6_prefix <> $1`)
// Two statements, one for all projects and one for some projects: a single statement with an optional condition would
// get one plan for both.
const placedVms = (
  whose: string,
) => `SELECT project_id AS "projectId", host_id AS "hostId", ipv6_address AS address FROM vm
   WHERE host_id IS NOT NULL AND want <> 'absent' ${whose}`
const allVms = statement<PlacedVm>('network.vms', placedVms(''))
const vmsOf = statement<PlacedVm>('network.vmsOf', placedVms('AND project_id = ANY($1::uuid[])'))
// Returns SQL for the names: an app's name has the addresses of its healthy replicas, a database has its user-given
// name. If both have the same name, the app wins.
const networkNames = (ofApp: string, ofDatabase: string) => `WITH named AS (
     SELECT a.project_id, a.name, a.id AS app_id, a.active_deployment_id, 1 AS rank FROM app a
     WHERE a.want = 'live' AND a.owner = 'user' ${ofApp}
     UNION ALL
     SELECT d.project_id, d.name, a.id, a.active_deployment_id, 2 FROM database d
     JOIN branch b ON b.database_id = d.id AND b.is_current JOIN app a ON a.id = b.app_id
     WHERE d.want <> 'deleted' AND b.want = 'live' ${ofDatabase}
   ), chosen AS (SELECT DISTINCT ON (project_id, name) * FROM named ORDER BY project_id, name, rank)
   SELECT c.project_id AS "projectId", c.name,
     coalesce(jsonb_agg(v.ipv6_address ORDER BY v.id) FILTER (WHERE v.id IS NOT NULL), '[]') AS addresses
   FROM chosen c LEFT JOIN vm v ON v.deployment_id = c.active_deployment_id AND v.run_id IS NULL AND v.healthy AND v.want = 'running'
   WHERE EXISTS (SELECT FROM vm any_vm WHERE any_vm.project_id = c.project_id AND any_vm.host_id IS NOT NULL)
   GROUP BY c.project_id, c.name`
const allNames = statement<NetworkName>('network.names', networkNames('', ''))
const namesOf = statement<NetworkName>(
  'network.namesOf',
  networkNames('AND a.project_id = ANY($1::uuid[])', 'AND d.project_id = ANY($1::uuid[])'),
)
const meshHosts = statement<MeshHost>(
  'network.meshHosts',
  `SELECT m.host_id AS "hostId", m.public_key AS "publicKey", m.endpoint,
     CASE WHEN m.guests IS NOT NULL THEN jsonb_build_object('guests', m.guests, 'gateway', m.gateway) END AS ipv4,
     m.assigned
   FROM mesh_host m JOIN host h ON h.id = m.host_id
   WHERE h.removed_at IS NULL`,
)
const putMeshHost = statement(
  'network.putMeshHost',
  `INSERT INTO mesh_host AS m (host_id, public_key, endpoint, guests, gateway)
   SELECT id, $2, $3, $4, $5 FROM host WHERE id = $1 AND removed_at IS NULL
   ON CONFLICT (host_id) DO UPDATE SET public_key = excluded.public_key, endpoint = excluded.endpoint,
     guests = excluded.guests, gateway = excluded.gateway, changed_at = now()
   WHERE (m.public_key, m.endpoint, m.guests, m.gateway)
     IS DISTINCT FROM (excluded.public_key, excluded.endpoint, excluded.guests, excluded.gateway)`,
)

// Makes the guest network of a removed host available to other hosts.
const freeGuests = statement(
  'network.freeGuests',
  `UPDATE mesh_host m SET assigned = NULL FROM host h
   WHERE h.id = m.host_id AND h.removed_at IS NOT NULL AND m.assigned IS NOT NULL`,
)
const assignGuests = statement(
  'network.assignGuests',
  `UPDATE mesh_host SET assigned = $2
   WHERE host_id = $1 AND assigned IS NULL AND NOT EXISTS (SELECT FROM mesh_host WHERE assigned = $2)`,
)

/**
 * Reads everything that the network messages for hosts contain. Their version is the database's clock, read before the
 * rows. Every control plane reads after each change, so the newest version includes all changes. (A transaction id
 * would start over in a restored database.)
 */
export async function networkState(db: Db): Promise<NetworkState> {
  const { prefix, version } = await db.one(prefixNow)
  const [vms, names, hosts] = await Promise.all([db.rows(allVms), db.rows(allNames), db.rows(meshHosts)])
  return { version, prefix, vms, names, meshHosts: hosts }
}

/** Reads the current rows of some projects. The returned version is read before the rows. */
export async function projectNetworks(db: Db, projectIds: readonly string[]): Promise<ProjectNetworks> {
  const { version } = await db.one(prefixNow)
  const [vms, names] = await Promise.all([db.rows(vmsOf, [projectIds]), db.rows(namesOf, [projectIds])])
  return { version, vms, names }
}

/** Sets the installation's prefix, from which projects that are created from now on get their networks. */
export const adoptPrefix = (sql: Sql, prefix: string) => sql.run(setPrefix, [prefix])
export const listMeshHosts = (sql: Sql) => sql.rows(meshHosts)
export const recordMeshHost = (sql: Sql, host: Omit<MeshHost, 'assigned'>) =>
  sql.run(putMeshHost, [
    ...[host.hostId, host.publicKey, host.endpoint, host.ipv4?.guests ?? null, host.ipv4?.gateway ?? null],
  ])
/** Makes the guest networks of removed hosts available again. */
export const releaseGuestNetworks = (sql: Sql) => sql.run(freeGuests)
/** Assigns a guest network to a host. Returns false if the host already has one, or if another host has this one. */
export const assignGuestNetwork = async (sql: Sql, hostId: string, guests: string) =>
  (await sql.run(assignGuests, [hostId, guests])) === 1
export const prefixOf = async (sql: Sql) => (await sql.one(prefixNow)).prefix
