/** Plans how a VM can move to another host together with its volumes. */
import { type HypervisorOffer, offersFeature } from '../../contract/agent.ts'
import type { Sql } from '../../db/db.ts'
import { listPools } from '../hosts/index.ts'
import { type RetainedSnapshot, keptBehind, retainedWithVolumes, notTaken } from '../moves/index.ts'
import { fitMoved, fitVolumes, type PoolView } from '../scheduler/pools.ts'
import * as store from './plan-store.ts'

export interface MovePlan {
  /**
   * How the VM moves. `live`: it keeps running. `stop-and-copy`: it is stopped on the source and continues on the
   * target.
   */
  readonly method: 'live' | 'stop-and-copy'
  /** Volumes that must be copied, with their target pools. */
  readonly volumes: readonly { readonly volumeId: string; readonly pool: string }[]
  readonly withVolumes: boolean
}

/** A plan of a move, or the reason why the VM cannot move, as text for users. */
export type MoveChoice = { readonly plan: MovePlan } | { readonly why: string }

/**
 * Everything that moves together with a VM, and the pools of all hosts. Loaded once, and used for any number of
 * possible targets.
 */
export interface CoMoved {
  readonly disks: readonly store.DiskToMove[]
  /** Pools of all hosts. */
  readonly pools: readonly PoolView[]
  /** Retained VM snapshots that depend on these volumes and therefore move with them. */
  readonly snapshots: readonly RetainedSnapshot[]
}

/** Loads everything that moves with a VM. @param known pools of all hosts, if the caller has already loaded them */
export async function coMovedOf(sql: Sql, vmId: string, known?: readonly PoolView[]): Promise<CoMoved> {
  const disks = await store.disks(sql, vmId)
  const bound = disks.filter(disk => disk.bound).map(disk => disk.volumeId)
  const snapshots = await retainedWithVolumes(sql, bound)
  return { disks, snapshots, pools: known ?? (disks.length > 0 ? await listPools(sql) : []) }
}

interface End {
  readonly id: string
  readonly name: string
  readonly hypervisors: readonly HypervisorOffer[]
}

/** Returns why the VM cannot leave its host for any other one; undefined when it can. */
export function moveObstacle(
  vm: { readonly want: string },
  { disks, snapshots }: Pick<CoMoved, 'disks' | 'snapshots'>,
): string | undefined {
  if (disks.length === 0) return undefined
  if (vm.want !== 'running' && vm.want !== 'paused') return 'The VM is being stopped or removed.'
  const busy = disks.find(disk => !disk.quiet)
  if (busy) return `Volume ${busy.name} is being changed, snapshotted or cloned. Try again afterwards.`
  const shared = disks.find(disk => disk.bound && disk.shared)
  if (shared)
    return `Volume ${shared.name} is also attached to other VMs on the same host. Detach the volume from the other VMs first.`
  return keptBehind(snapshots, new Set(disks.map(disk => disk.volumeId)))?.why
}

/** Decides whether and how the VM can move between these hosts. Call `moveObstacle` first. */
export function chooseMove(
  vm: { readonly want: string; readonly hypervisor: string | null },
  source: End,
  target: End,
  { disks, pools, snapshots }: CoMoved,
): MoveChoice {
  const offerOf = (end: End) => end.hypervisors.find(one => one.name === vm.hypervisor && one.available)
  const [here, there] = [source.hypervisors.find(one => one.name === vm.hypervisor), offerOf(target)]
  if (!here || !there) return { why: `Host ${target.name} does not offer ${vm.hypervisor}.` }
  const both = (holds: (offer: HypervisorOffer) => boolean) => holds(here) && holds(there)
  const live = both(({ capabilities }) => capabilities.migrate === 'live')
  // An agent without the feature `paused-moves` does not transfer the memory of a paused guest, but waits for it to
  // resume until the move is cancelled.
  const stuck = vm.want === 'paused' && !both(offer => offersFeature(offer, 'paused-moves') === true)
  const resumeFirst = `The VM is paused, and ${vm.hypervisor} cannot move it to host ${target.name} in that state. Resume it first.`
  if (disks.length === 0) {
    if (!both(({ capabilities }) => capabilities.migrate !== 'none'))
      return { why: `Host ${target.name} cannot receive a VM with ${vm.hypervisor}.` }
    if (live && stuck) return { why: resumeFirst }
    return { plan: { method: live ? 'live' : 'stop-and-copy', volumes: [], withVolumes: false } }
  }
  const [bound, reached] = [disks.filter(disk => disk.bound), disks.filter(disk => !disk.bound)]
  const places = fitMoved(pools, target.id, bound)
  if (!places || !fitVolumes(pools, target.id, reached))
    return { why: `Host ${target.name} has no storage pool with room for the volumes of the VM.` }
  const alone = notTaken(snapshots, source, target)
  if (alone) return { why: alone }
  const volumes = [...places].map(([volumeId, { name }]) => ({ volumeId, pool: name }))
  const encrypted = [...places.values()].some(pool => pool.encrypted)
  if (encrypted && offersFeature(there, 'encrypted-volumes') === false)
    return { why: `${vm.hypervisor} on host ${target.name} cannot open encrypted volumes.` }
  const carried = reached.length === 0 && both(offer => offersFeature(offer, 'moved-volumes') === true)
  // A live move copies the volumes through the VM's hypervisor, which cannot write to read-only volumes, so those need
  // another method.
  const running = live && carried && !disks.some(disk => disk.readOnly)
  if (running && stuck) return { why: resumeFirst }
  return { plan: { method: running ? 'live' : 'stop-and-copy', volumes, withVolumes: true } }
}
