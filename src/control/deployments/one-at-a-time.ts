/**
 * Exclusive apps never have more VMs than desired replicas: an old VM is removed before a new one is created, and if
 * the new version fails, the VMs of the old one are created again. An app is exclusive if it has a volume that only one
 * VM may attach, or the strategy `one-at-a-time`.
 */
import { type Tx, statement } from '../../db/db.ts'
import { dropSnapshots, setVmsWant } from '../vms/index.ts'
import type { Deployment, DeploymentVm } from './store.ts'

export const strategies = ['rolling', 'one-at-a-time'] as const
export type Strategy = (typeof strategies)[number]

export interface ExclusiveFacts {
  readonly strategy: Strategy
  /**
   * True if no new VM may run beside the old ones: the app has a volume that only one VM may attach, or the strategy
   * `one-at-a-time`.
   */
  readonly exclusive: boolean
  /**
   * True while a later rollout of an exclusive app is in progress. This deployment then removes its VMs to make room,
   * and creates them again if the later rollout fails.
   */
  readonly yields: boolean
  /** Number of VMs of the later rollout that are healthy or whose programs have ended with code 0. */
  readonly arrived: number
  /**
   * When the newest VM of the deployment was created; null if it has none, or if the app's strategy is not
   * `one-at-a-time`.
   */
  readonly newestVmAt: Date | null
}

/** SQL for the rollouts in progress that are later than the deployment `d`. */
const laterRollouts = `deployment n JOIN machine nm ON nm.kind = 'deployment' AND nm.id = n.id AND nm.phase = 'rolling'
  WHERE n.app_id = d.app_id AND n.rollout > d.rollout AND n.outcome IS NULL AND n.image <> '' AND n.want IN ('running', 'paused')`
const isExclusive = `(a.strategy = 'one-at-a-time' OR EXISTS (SELECT FROM volume_attachment t
  WHERE t.app_id = d.app_id AND t.deployment_id IS NULL AND t.access_mode = 0 AND t.want = 'attached'))`
/** SQL columns of `ExclusiveFacts` for a deployment `d` of an app `a`. */
export const exclusiveColumns = `a.strategy, ${isExclusive} AS exclusive, (${isExclusive} AND EXISTS (SELECT FROM ${laterRollouts})) AS yields,
  CASE WHEN a.strategy = 'one-at-a-time' THEN (SELECT count(*)::int FROM vm w
    WHERE w.deployment_id = (SELECT n.id FROM ${laterRollouts} ORDER BY n.rollout DESC LIMIT 1) AND w.run_id IS NULL AND w.want <> 'absent'
      AND (w.healthy OR (w.seen_state = 'crashed' AND w.seen_exit_code = 0))) ELSE 0 END AS arrived,
  CASE WHEN a.strategy = 'one-at-a-time' THEN
    (SELECT max(v.created_at) FROM vm v WHERE v.deployment_id = d.id AND v.run_id IS NULL AND v.want <> 'absent') END AS "newestVmAt"`

// VMs that are being removed count as running until their host has reported that they are gone.
const freePlaces = statement<{ free: number }>(
  'deployments.freePlaces',
  `SELECT CASE strategy WHEN 'one-at-a-time' THEN greatest(desired_replicas, 1)
       - (SELECT count(*)::int FROM vm WHERE vm.app_id = app.id AND vm.run_id IS NULL) ELSE 2147483647 END AS free
   FROM app WHERE id = $1`,
)

/**
 * Returns how many of the `wanted` VMs may be created now. The app must be locked, so that no other transaction creates
 * VMs.
 */
export async function creatable(tx: Tx, appId: string, wanted: number): Promise<number> {
  if (wanted <= 0) return 0
  const { free } = await tx.one(freePlaces, [appId])
  return Math.max(0, Math.min(wanted, free))
}

const wants = (d: Pick<Deployment, 'desiredReplicas'>) => Math.max(d.desiredReplicas, 1)
const kept = (d: Pick<Deployment, 'vms'>) => d.vms.filter(vm => vm.want !== 'absent')

/**
 * Returns the VMs that this deployment must remove now to make room for a later rollout: one more than the later
 * rollout has healthy VMs. Unhealthy VMs are removed first.
 */
export function leavingFor(
  d: Pick<Deployment, 'desiredReplicas' | 'arrived' | 'vms' | 'activeDeploymentId' | 'id'>,
): readonly DeploymentVm[] {
  const stay = d.activeDeploymentId === d.id ? Math.max(0, wants(d) - d.arrived - 1) : 0
  return kept(d)
    .toSorted((one, other) => Number(other.healthy) - Number(one.healthy))
    .slice(stay)
}

/** Removes the VMs that must make room for a later rollout. */
export async function yieldPlaces(tx: Tx, d: Deployment): Promise<void> {
  await dropSnapshots(tx, d.id, 'sleep')
  await setVmsWant(
    tx,
    leavingFor(d).map(vm => vm.id),
    'absent',
  )
}

/**
 * Returns whether a rollout, with all its VMs healthy, waits for the end of an old VM. The wait takes as long as the
 * old program needs to stop.
 */
export const awaitsPlace = (d: Deployment): boolean =>
  d.strategy === 'one-at-a-time' && kept(d).length < wants(d) && kept(d).every(vm => vm.healthy)
