/** Moves detached volumes to other hosts: on request of a user, and to drain a host. */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts, listPools } from '../hosts/index.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import { newId } from '../../lib/ids.ts'
import {
  type RetainedSnapshot,
  retainedBySnapshot,
  lockVolumes,
  notTaken,
  startMove,
  startSnapshotMove,
  takenElsewhere,
  withoutFailedTargetsFirst,
} from '../moves/index.ts'
import { fitMoved, type PoolView } from '../scheduler/pools.ts'
import * as rules from './rules.ts'
import * as store from './store.ts'
import type { Volume } from './store.ts'
import { moveGroupOf } from './move-group.ts'

/**
 * Maximum number of concurrent moves of volumes from one host. Each move reads and writes at full disk speed, so more
 * of them would slow each other down.
 */
const mostFromOneHost = 2

/**
 * Starts moving the volume to another host, together with its snapshots and its move group.
 * @throws ApiError 400 (`target_host`), 404, 409 `volume_in_use` while it is attached to a VM, `operation_in_progress`,
 * `invalid_state`
 */
export async function moveVolume(tx: Tx, id: string, target: HostRow, source?: HostRow): Promise<void> {
  const before = await moveGroupOf(tx, id)
  await lockVolumes(tx, before.volumeIds)
  const volume = await store.lock(tx, id)
  if (!volume) throw notFound()
  const obstacle = await whyNotMoved(tx, volume)
  if (obstacle) throw obstacle
  if (volume.hostId === target.id) throw invalidField('target_host', `the volume is already on ${target.name}`)
  if (!target.up || target.cordoned)
    throw invalidState(`Host ${target.name} accepts no volumes now: it is ${target.up ? 'cordoned' : 'not reporting'}.`)
  const group = await groupOf(tx, volume)
  if (group.volumes.some(one => !before.volumeIds.includes(one.id)))
    throw rules.underWay(`A snapshot of volume ${volume.name} is being taken. Wait until that is done.`)
  const refused = source && notTaken(group.snapshots, source, target)
  if (refused) throw invalidState(refused)
  const pools = poolsThere(await listPools(tx), group.volumes, target.id)
  if (pools === undefined)
    throw new ApiError(
      'no_capacity',
      `Host ${target.name} has no storage pool with room for ${namesOf(group.volumes)}.`,
    )
  await start(tx, group, target.id, pools)
}

const namesOf = (volumes: readonly Volume[]) =>
  `${volumes.length === 1 ? 'volume' : 'volumes'} ${volumes.map(one => one.name).join(' and ')}`

interface Group {
  readonly volumes: readonly Volume[]
  readonly snapshots: readonly RetainedSnapshot[]
}

async function groupOf(sql: Sql, volume: Volume): Promise<Group> {
  const { volumeIds, snapshots } = await moveGroupOf(sql, volume.id)
  const others = volumeIds.filter(id => id !== volume.id)
  return { volumes: [volume, ...(await store.byIds(sql, others))], snapshots }
}

/**
 * Starts the moves of all volumes and snapshots of the group in this transaction.
 * @throws ApiError 409 `operation_in_progress`
 */
async function start(tx: Tx, group: Group, targetHostId: string, pools: ReadonlyMap<string, PoolView>): Promise<void> {
  const groupId = newId()
  const together = group.snapshots.length > 0 ? { groupId } : {}
  for (const { id: volumeId, name } of group.volumes) {
    const targetPool = pools.get(volumeId)?.name ?? ''
    if (!(await startMove(tx, { volumeId, targetHostId, targetPool, ...together })))
      throw rules.underWay(`Volume ${name} is being changed, snapshotted or cloned. Wait until that is done.`)
  }
  for (const { id: snapshotId, name } of group.snapshots)
    if (!(await startSnapshotMove(tx, { snapshotId, targetHostId, groupId, migrationId: null })))
      throw rules.underWay(`Snapshot ${name} is being forked, restored or moved. Wait until that is done.`)
}

/**
 * Returns why the volume cannot move to any host now, as an error with the code `operation_in_progress`,
 * `invalid_state` or `volume_in_use`; undefined if it can.
 */
export async function whyNotMoved(sql: Sql, volume: Volume): Promise<ApiError | undefined> {
  const { id, name, movingTo, state, hostId, bound } = volume
  if (movingTo !== null)
    return rules.underWay(`Volume ${name} is being moved to another host. Wait until that is done.`)
  if (state === 'failed') return invalidState(`Volume ${name} could not be created, so it has no content.`)
  if (hostId === null) return invalidState(`Volume ${name} has no host yet; its first VM decides the host.`)
  if (!bound)
    return invalidState(`Volume ${name} is in a shared pool that every host reaches, so it does not need to move.`)
  if ((await store.vmIds(sql, id)).length > 0)
    return new ApiError(
      'volume_in_use',
      `Volume ${name} is attached to a VM. Move the VM, and the volume moves with it.`,
    )
  const { behind } = await moveGroupOf(sql, id)
  return behind && (behind.passes ? rules.underWay(behind.why) : invalidState(behind.why))
}

const poolsThere = (pools: readonly PoolView[], volumes: readonly Volume[], hostId: string) =>
  fitMoved(
    pools,
    hostId,
    volumes.map(one => ({ ...one, volumeId: one.id })),
  )

// Selects the detached volumes that should move off draining hosts; attached volumes move with their VMs. Skips a
// volume for ten minutes after its move failed or was cancelled, and a volume with a VM snapshot that no other host can
// load. The limit applies to each host, so that a host with volumes that cannot move does not delay others. Small
// volumes come first, because another host is more likely to have space for them.
const leftBehind = statement<{ id: string; hostId: string }>(
  'volumes.leftBehind',
  `SELECT left_behind.id, h.id AS "hostId" FROM host h CROSS JOIN LATERAL (
     SELECT o.id FROM volume o
     WHERE o.host_id = h.id AND o.bound AND o.want = 'present' AND o.state = 'ready'
       AND o.moving_to IS NULL AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id)
       AND NOT EXISTS (SELECT FROM volume_move x WHERE x.volume_id = o.id AND x.state IN ('failed', 'cancelled')
         AND x.ended_at > now() - interval '10 minutes')
       AND NOT EXISTS (SELECT FROM vm_snapshot s WHERE ${retainedBySnapshot} AND NOT ${takenElsewhere})
     ORDER BY o.size_mib, o.id LIMIT 50) left_behind
   WHERE h.draining AND h.lost_at IS NULL AND h.removed_at IS NULL`,
)
const movesFrom = statement<{ count: number }>(
  'volumes.movesFrom',
  `SELECT count(*)::int AS count FROM volume_move WHERE source_host_id = $1 AND ended_at IS NULL
     AND state IN ('preparing', 'copying', 'copied', 'complete') AND migration_id IS NULL`,
)

/** The sweep that moves detached volumes off draining hosts. */
export const drainedVolumes = (deps: Pick<Deps, 'db' | 'config' | 'log'>): Sweep => ({
  name: 'drained-volumes',
  everyMs: seconds(10),
  async run() {
    const counts = { found: 0, moved: 0, refused: 0 }
    for (const { id, hostId } of await deps.db.rows(leftBehind)) {
      counts.found++
      try {
        if (await deps.db.tx(tx => moveAway(tx, deps, id, hostId))) counts.moved++
      } catch (error) {
        // Another operation may be using this volume. Continue with the other volumes; the next run of the sweep tries
        // this one again.
        counts.refused++
        const level = error instanceof ApiError ? 'info' : 'error'
        deps.log[level]({ volumeId: id, err: error }, 'could not move a volume off a draining host in this round')
      }
    }
    return counts
  },
})

/**
 * Starts to move the volume to the first suitable host. Returns false if the maximum number of volumes is already
 * leaving the source host, or if no other host can store this volume.
 */
async function moveAway(tx: Tx, { config }: Pick<Deps, 'config'>, id: string, hostId: string): Promise<boolean> {
  if ((await tx.one(movesFrom, [hostId])).count >= mostFromOneHost) return false
  const volume = await store.byId(tx, id)
  if (!volume) return false
  const [group, pools] = [await groupOf(tx, volume), await listPools(tx)]
  const hosts = await listHosts(tx, config.hostTimeoutSeconds)
  const source = hosts.find(host => host.id === hostId)
  for (const target of await withoutFailedTargetsFirst(tx, hosts, { volumeIds: group.volumes.map(one => one.id) })) {
    if (target.id === hostId || !target.up || target.cordoned) continue
    if (poolsThere(pools, group.volumes, target.id) === undefined) continue
    if (!source || notTaken(group.snapshots, source, target)) continue
    await moveVolume(tx, id, target, source)
    return true
  }
  return false
}
