/** Volumes that nobody has move to another host: by hand, and off hosts that are being emptied. */
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

/** Each is read and written as fast as the disks are: more at once would only make all of them slow. */
const mostFromOneHost = 2

/**
 * Wishes for the volume, with its snapshots and what has to move with it, on another host; its machine has it carried there.
 * @throws ApiError 400 (`target_host`), 404, 409 `volume_in_use` while a VM has it, `operation_in_progress`, `invalid_state`
 */
export async function moveVolume(tx: Tx, id: string, target: HostRow, source?: HostRow): Promise<void> {
  const before = await moveGroupOf(tx, id)
  await lockVolumes(tx, before.volumeIds)
  const volume = await store.lock(tx, id)
  if (!volume) throw notFound()
  const obstacle = await whyNotMoved(tx, volume)
  if (obstacle) throw obstacle
  if (volume.hostId === target.id) throw invalidField('target_host', `the volume is on ${target.name} already`)
  if (!target.up || target.cordoned)
    throw invalidState(`Host ${target.name} takes nothing now: it is ${target.up ? 'cordoned' : 'not heard of'}.`)
  const group = await groupOf(tx, volume)
  if (group.volumes.some(one => !before.volumeIds.includes(one.id)))
    throw rules.underWay(`Volume ${volume.name} is being kept. Wait until that is done.`)
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

/** All of it or nothing. @throws ApiError 409 `operation_in_progress` */
async function start(tx: Tx, group: Group, targetHostId: string, pools: ReadonlyMap<string, PoolView>): Promise<void> {
  const groupId = newId()
  const together = group.snapshots.length > 0 ? { groupId } : {}
  for (const { id: volumeId, name } of group.volumes) {
    const targetPool = pools.get(volumeId)?.name ?? ''
    if (!(await startMove(tx, { volumeId, targetHostId, targetPool, ...together })))
      throw rules.underWay(`Volume ${name} is being changed, kept or cloned. Wait until that is done.`)
  }
  for (const { id: snapshotId, name } of group.snapshots)
    if (!(await startSnapshotMove(tx, { snapshotId, targetHostId, groupId, migrationId: null })))
      throw rules.underWay(`Snapshot ${name} is being forked, restored or moved. Wait until that is done.`)
}

/** What keeps the volume where it is, whatever the other host is: 409 `operation_in_progress`, `invalid_state`, `volume_in_use`. */
export async function whyNotMoved(sql: Sql, volume: Volume): Promise<ApiError | undefined> {
  const { id, name, movingTo, state, hostId, bound } = volume
  if (movingTo !== null)
    return rules.underWay(`Volume ${name} is being moved to another host. Wait until that is done.`)
  if (state === 'failed') return invalidState(`Volume ${name} could not be made; there is nothing in it.`)
  if (hostId === null) return invalidState(`Volume ${name} has no place yet; it gets one with its first VM.`)
  if (!bound) return invalidState(`Every host reaches volume ${name}: it need not move.`)
  if ((await store.vmIds(sql, id)).length > 0)
    return new ApiError('volume_in_use', `A VM has volume ${name}. Move that, and the volume goes along.`)
  const { behind } = await moveGroupOf(sql, id)
  return behind && (behind.passes ? rules.underWay(behind.why) : invalidState(behind.why))
}

const poolsThere = (pools: readonly PoolView[], volumes: readonly Volume[], hostId: string) =>
  fitMoved(
    pools,
    hostId,
    volumes.map(one => ({ ...one, volumeId: one.id })),
  )

// Those of VMs go with these. One that could not be moved, or whose move was cancelled, stays for a while, one with a snapshot that no
// other host goes on with as long as that is so. A few of each host: one whose volumes cannot leave holds up no other. The smallest
// first: what finds no room elsewhere is behind what does.
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

/** Volumes at rest leave hosts that are being emptied. */
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
        // Somebody else does something with it, say: the next round tries again, and this one goes on with the others.
        counts.refused++
        const level = error instanceof ApiError ? 'info' : 'error'
        deps.log[level]({ volumeId: id, err: error }, 'a volume does not leave its host this time')
      }
    }
    return counts
  },
})

/** False when enough others leave the host now, or no other can take it. */
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
