/**
 * Lists the detached volumes that are still on a draining host, and why each is still there, for the operator who
 * drains the host.
 */
import { type Sql, statement } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts, listPools } from '../hosts/index.ts'
import { retainedBySnapshot, notTaken } from '../moves/index.ts'
import { fitMoved, type PoolView } from '../scheduler/pools.ts'
import * as store from './store.ts'
import { type MoveGroup, moveGroupOf } from './move-group.ts'

export interface LeavingVolume {
  readonly volumeId: string
  readonly projectId: string
  readonly name: string
  /**
   * `moving`: the volume is moving to another host. `waiting`: it will leave the host without intervention. `staying`:
   * it leaves only if an operator acts. VMs in a drain report have the same states.
   */
  readonly state: 'moving' | 'waiting' | 'staying'
  /** Text for the operator: why the volume is still on the host, and what to do about it. */
  readonly reason: string
}

interface AtRest {
  readonly volumeId: string
  readonly projectId: string
  readonly name: string
  readonly isReady: boolean
  readonly sizeMib: number
  readonly poolName: string
  readonly hostId: string
  readonly bound: boolean
  /**
   * Whether a VM snapshot contains a copy of the volume or needs the volume itself, because its guest has it mounted
   * read-only.
   */
  readonly kept: boolean
  readonly going: { readonly target: string; readonly percent: number } | null
  /** The last move of the volume, if it failed or was cancelled within ten minutes. */
  readonly ended: { readonly error: string | null } | null
}

// Selects the same volumes as `volumes.leftBehind` in move.ts, and those that are moving or cannot move. Volumes that a
// VM snapshot needs come first, so that the limit of 100 rows does not exclude them: they may need an operator.
const atRestOn = statement<AtRest>(
  'volumes.atRestOn',
  `SELECT o.id AS "volumeId", o.project_id AS "projectId", o.name, o.state = 'ready' AS "isReady", o.size_mib AS "sizeMib",
     o.pool_name AS "poolName", o.host_id AS "hostId", o.bound, EXISTS (SELECT FROM vm_snapshot s WHERE ${retainedBySnapshot}) AS kept,
     going.going, ended.ended
   FROM volume o
   LEFT JOIN LATERAL (SELECT jsonb_build_object('target', t.name, 'percent', x.percent) AS going
     FROM volume_move x JOIN host t ON t.id = x.target_host_id
     WHERE x.volume_id = o.id AND x.ended_at IS NULL AND x.target_host_id <> o.host_id ORDER BY x.id LIMIT 1) going ON true
   LEFT JOIN LATERAL (SELECT jsonb_build_object('error', x.error) AS ended
     FROM volume_move x WHERE x.volume_id = o.id AND x.state IN ('failed', 'cancelled')
       AND x.ended_at > now() - interval '10 minutes' ORDER BY x.id DESC LIMIT 1) ended ON true
   WHERE o.host_id = $1 AND o.bound AND o.want = 'present' AND o.state <> 'failed'
     AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id)
   ORDER BY kept DESC, o.id LIMIT 100`,
)

/** Returns at most a hundred detached volumes that are still on the host, first those that a VM snapshot needs. */
export async function leavingVolumes(
  sql: Sql,
  { config }: Pick<Deps, 'config'>,
  { id: sourceId }: Pick<HostRow, 'id'>,
): Promise<LeavingVolume[]> {
  const volumes = await sql.rows(atRestOn, [sourceId])
  if (volumes.length === 0) return []
  const hosts = await listHosts(sql, config.hostTimeoutSeconds)
  const source = hosts.find(host => host.id === sourceId)
  if (!source) return []
  const targets = hosts.filter(host => host.id !== sourceId && host.up && !host.cordoned)
  const pools = await listPools(sql)
  const reported: LeavingVolume[] = []
  for (const volume of volumes) {
    const { volumeId, projectId, name } = volume
    const together = volume.kept ? await moveGroupOf(sql, volumeId) : nothing
    const others = together.volumeIds.filter(id => id !== volumeId)
    const along = others.length > 0 ? await store.byIds(sql, others) : []
    reported.push({ volumeId, projectId, name, ...whyHere(volume, { source, targets, pools, together, along }) })
  }
  return reported
}

const nothing: MoveGroup = { volumeIds: [], snapshots: [], behind: undefined }

interface Elsewhere {
  readonly source: HostRow
  readonly targets: readonly HostRow[]
  readonly pools: readonly PoolView[]
  readonly together: MoveGroup
  /** The other volumes of the volume's move group, which need space on the same target host. */
  readonly along: readonly store.Volume[]
}

/** Maximum number of volume names in the reason for one volume. */
const mostNamed = 3

type Why = Pick<LeavingVolume, 'state' | 'reason'>
const waiting = (reason: string): Why => ({ state: 'waiting', reason })
const staying = (reason: string): Why => ({ state: 'staying', reason })

/**
 * Returns the text "it" for a volume that moves alone, otherwise "it with volumes ..." with at most `mostNamed` names.
 */
function itWith(along: readonly store.Volume[]): string {
  if (along.length === 0) return 'it'
  const more = along.length > mostNamed ? ` and ${along.length - mostNamed} more` : ''
  const names = along.slice(0, mostNamed).map(one => one.name)
  return `it with ${along.length === 1 ? 'volume' : 'volumes'} ${names.join(', ')}${more}, which the same snapshots of VMs need`
}

function whyHere(volume: AtRest, { source, targets, pools, together, along }: Elsewhere): Why {
  const { going, ended } = volume
  if (going) {
    const percent = going.percent > 0 ? ` (${Math.round(going.percent)} %)` : ''
    return { state: 'moving', reason: `Moving to ${going.target}${percent}.` }
  }
  const { behind, snapshots } = together
  if (behind) return behind.passes ? waiting(behind.why) : staying(behind.why)
  if (!volume.isReady) return waiting('The volume is being created or restored.')
  const all = [volume, ...along.map(one => ({ ...one, volumeId: one.id }))]
  const roomy = targets.filter(({ id }) => fitMoved(pools, id, all))
  if (roomy.length === 0)
    return staying(`No other host has a storage pool with room for ${itWith(along)}. Add one, or delete the volume.`)
  const refusals = roomy.map(target => notTaken(snapshots, source, target))
  if (refusals.every(why => why !== undefined))
    return staying(`${refusals.join(' ')} Delete the snapshot, or add a host like this one.`)
  if (ended)
    return waiting(
      `The move of the volume ended (${ended.error ?? 'it was cancelled'}); the next attempt starts after ten minutes.`,
    )
  return waiting('Other volumes leave first: two of a host move at a time.')
}
