/** Snapshots of VMs that have copies of volumes, or whose guest reads them, and so go where these go, or keep them where they are. */
import { type HypervisorOffer, offersFeature } from '../../contract/agent.ts'
import { type Sql, statement } from '../../db/db.ts'
import { retainedBySnapshot, leftoversOf } from './retained.ts'
import { olderRuns } from './snapshot-store.ts'

/** A snapshot of a VM, with the volumes on its host that its guest has mounted. */
export interface RetainedSnapshot {
  readonly id: string
  readonly name: string
  readonly appName: string
  /** VMM, version and CPU: on another one it does not go on. */
  readonly madeBy: string | null
  /** It is on its way, or somebody needs it where it is: a fork that has not started, a VM that goes back to it. */
  readonly busy: boolean
  /** Hosts that have yet to remove what an earlier move left there: until then it cannot go back to them. */
  readonly leftovers: readonly string[]
  /** A control plane that would move its volumes without it runs beside this one. */
  readonly olderRuns: boolean
  readonly volumes: readonly {
    readonly volumeId: string
    readonly name: string
    /** A VM has it. */
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

/** Snapshots that have what one of these volumes held. */
export const retainedWithVolumes = (sql: Sql, volumeIds: readonly string[]): Promise<RetainedSnapshot[]> =>
  volumeIds.length === 0 ? Promise.resolve([]) : sql.rows(keptWith, [volumeIds])

const of = ({ name, appName }: RetainedSnapshot) => `Snapshot ${name} of a VM of ${appName}`

/** Why the snapshots cannot leave with these volumes and no others, whatever the other host is; undefined: they can. */
export function keptBehind(
  snapshots: readonly RetainedSnapshot[],
  volumeIds: ReadonlySet<string>,
): { readonly why: string; readonly passes: boolean } | undefined {
  for (const snapshot of snapshots) {
    const other = snapshot.volumes.find(one => !volumeIds.has(one.volumeId))
    if (other)
      return {
        why: `${of(snapshot)} goes on with volume ${other.name}, too, which ${other.held ? 'a VM has' : 'no VM has'} and does not go with it. Delete the snapshot first.`,
        passes: false,
      }
  }
  const waits = snapshots.find(one => one.olderRuns)
  if (waits)
    return {
      why: `${of(waits)} has what its volumes held, and a control plane of an older version runs, which would leave it behind. Upgrade that first.`,
      passes: true,
    }
  const busy = snapshots.find(one => one.busy)
  return busy && { why: `${of(busy)} is being forked, restored or moved. Try again after that.`, passes: true }
}

interface End {
  readonly id: string
  readonly name: string
  readonly hypervisors: readonly HypervisorOffer[]
}

/** Why the snapshots cannot go from one host to the other; undefined: they can. */
export function notTaken(snapshots: readonly RetainedSnapshot[], source: End, target: End): string | undefined {
  const [first] = snapshots
  if (!first) return undefined
  const left = snapshots.find(({ leftovers }) => leftovers.includes(target.id))
  if (left) return `${of(left)} was on host ${target.name} before, which has yet to remove what is left of it there.`
  const able = (end: End) => end.hypervisors.filter(offer => offersFeature(offer, 'moved-snapshots') === true)
  const old = [source, target].find(end => able(end).length === 0)
  if (old) return `${of(first)} has what its volumes held, and host ${old.name} can neither send nor take it.`
  const kinds = able(target).flatMap(offer => (offer.available && offer.snapshotKind ? [offer.snapshotKind] : []))
  const foreign = snapshots.find(({ madeBy }) => madeBy === null || !kinds.includes(madeBy))
  return (
    foreign &&
    `${of(foreign)} was made by ${foreign.madeBy}, and host ${target.name} has ${kinds.join(' and ') || 'nothing that it goes on with'}.`
  )
}
