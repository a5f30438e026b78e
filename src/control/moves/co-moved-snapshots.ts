/**
 * VM snapshots that contain copies of volumes, or whose guest reads volumes. Such a snapshot moves together with its
 * volumes, or prevents their move.
 */
import { type HypervisorOffer, offersFeature } from '../../contract/agent.ts'
import { type Sql, statement } from '../../db/db.ts'
import { retainedBySnapshot, leftoversOf } from './retained.ts'
import { olderRuns } from './snapshot-store.ts'

/** A retained VM snapshot, with those volumes on its host that its guest had mounted. */
export interface RetainedSnapshot {
  readonly id: string
  readonly name: string
  readonly appName: string
  /** VMM, VMM version and CPU model. Only the same combination can resume the snapshot. */
  readonly madeBy: string | null
  /** Whether the snapshot is moving or in use: a fork has not started yet, or a VM is being restored from it. */
  readonly busy: boolean
  /**
   * Hosts that have not yet removed the copy left by an earlier move. Until then, the snapshot cannot move back to
   * them.
   */
  readonly leftovers: readonly string[]
  /** Whether a control plane of an older version is running. It would move the volumes without the snapshot. */
  readonly olderRuns: boolean
  readonly volumes: readonly {
    readonly volumeId: string
    readonly name: string
    /** Whether a VM has the volume attached. */
    readonly held: boolean
  }[]
}

const keptWith = statement<RetainedSnapshot>(
  'moves.keptWith',
  `SELECT s.id, s.name, a.name AS "appName", s.made_by AS "madeBy",
     s.moving_to IS NOT NULL
       OR EXISTS (SELECT FROM volume c WHERE c.from_snapshot_id = s.id AND c.want = 'present' AND c.state = 'creating' AND c.arrived_by IS NULL)
       OR EXISTS (SELECT FROM vm v WHERE v.project_id = s.project_id AND v.from_snapshot_id = s.id AND v.want <> 'absent'
         AND (v.seen_generation = 0 OR (NOT v.from_renew AND v.seen_generation < v.generation))) AS busy, ${leftoversOf} AS leftovers,
     ${olderRuns} AS "olderRuns",
     (SELECT coalesce(jsonb_agg(jsonb_build_object('volumeId', o.id, 'name', o.name,
         'held', EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id)) ORDER BY o.id), '[]'::jsonb)
       FROM volume o WHERE ${retainedBySnapshot} AND o.want = 'present') AS volumes
   FROM vm_snapshot s JOIN app a ON a.id = s.app_id
   WHERE s.host_id = ANY (SELECT host_id FROM volume WHERE id = ANY($1::uuid[]))
     AND EXISTS (SELECT FROM volume o WHERE o.id = ANY($1::uuid[]) AND ${retainedBySnapshot}) ORDER BY s.id`,
)

/** Returns the VM snapshots that contain copies of one of these volumes, or whose guest reads one of them. */
export const retainedWithVolumes = (sql: Sql, volumeIds: readonly string[]): Promise<RetainedSnapshot[]> =>
  volumeIds.length === 0 ? Promise.resolve([]) : sql.rows(keptWith, [volumeIds])

const of = ({ name, appName }: RetainedSnapshot) => `Snapshot ${name} of a VM of ${appName}`

/** Returns why the snapshots cannot move together with exactly these volumes, to any host; undefined when they can. */
export function keptBehind(
  snapshots: readonly RetainedSnapshot[],
  volumeIds: ReadonlySet<string>,
): { readonly why: string; readonly passes: boolean } | undefined {
  for (const snapshot of snapshots) {
    const other = snapshot.volumes.find(one => !volumeIds.has(one.volumeId))
    if (other)
      return {
        why: `${of(snapshot)} also needs volume ${other.name}, which ${other.held ? 'is attached to a VM' : 'is not attached'} and does not move with the snapshot. Delete the snapshot first.`,
        passes: false,
      }
  }
  const waits = snapshots.find(one => one.olderRuns)
  if (waits)
    return {
      why: `${of(waits)} needs its volumes, and a control plane of an older version is running, which would leave the snapshot behind. Upgrade that control plane first.`,
      passes: true,
    }
  const busy = snapshots.find(one => one.busy)
  return busy && { why: `${of(busy)} is being forked, restored or moved. Try again afterwards.`, passes: true }
}

interface End {
  readonly id: string
  readonly name: string
  readonly hypervisors: readonly HypervisorOffer[]
}

/** Returns why the snapshots cannot move from one host to the other; undefined when they can. */
export function notTaken(snapshots: readonly RetainedSnapshot[], source: End, target: End): string | undefined {
  const [first] = snapshots
  if (!first) return undefined
  const left = snapshots.find(({ leftovers }) => leftovers.includes(target.id))
  if (left) return `${of(left)} was on host ${target.name} before, and that host has not yet removed the leftovers.`
  const able = (end: End) => end.hypervisors.filter(offer => offersFeature(offer, 'moved-snapshots') === true)
  const old = [source, target].find(end => able(end).length === 0)
  if (old)
    return `${of(first)} would have to move, too, but the agent of host ${old.name} does not support moving snapshots. Upgrade that host.`
  const kinds = able(target).flatMap(offer => (offer.available && offer.snapshotKind ? [offer.snapshotKind] : []))
  const foreign = snapshots.find(({ madeBy }) => madeBy === null || !kinds.includes(madeBy))
  return (
    foreign &&
    `${of(foreign)} was made by ${foreign.madeBy}, and host ${target.name} has ${kinds.join(' and ') || 'no hypervisor that can load it'}.`
  )
}
