/** How a VM can get to another host, with the volumes that it has. */
import { type HypervisorOffer, offersFeature } from '../../contract/agent.ts'
import type { Sql } from '../../db/db.ts'
import { listPools } from '../hosts/index.ts'
import { type RetainedSnapshot, keptBehind, retainedWithVolumes, notTaken } from '../moves/index.ts'
import { fitMoved, fitVolumes, type PoolView } from '../scheduler/pools.ts'
import * as store from './plan-store.ts'

export interface MovePlan {
  /** `live`: it runs on meanwhile. `stop-and-copy`: with volumes it is stopped here and starts there. */
  readonly method: 'live' | 'stop-and-copy'
  /** Those that have to be carried over, with their pool there. */
  readonly volumes: readonly { readonly volumeId: string; readonly pool: string }[]
  readonly withVolumes: boolean
}

/** `why`: for people. */
export type MoveChoice = { readonly plan: MovePlan } | { readonly why: string }

/** Volumes of a VM and where they could be: read once, whatever hosts are then asked about. */
export interface CoMoved {
  readonly disks: readonly store.DiskToMove[]
  /** Those of all hosts. */
  readonly pools: readonly PoolView[]
  /** Those that have what these disks held: they go along. */
  readonly snapshots: readonly RetainedSnapshot[]
}

/** @param known the storage pools of all hosts, by whoever has read them for several VMs */
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

/** What keeps the VM from leaving its host with its volumes, whatever the other one is; undefined: nothing. */
export function moveObstacle(
  vm: { readonly want: string },
  { disks, snapshots }: Pick<CoMoved, 'disks' | 'snapshots'>,
): string | undefined {
  if (disks.length === 0) return undefined
  if (vm.want !== 'running' && vm.want !== 'paused') return 'The VM is about to end.'
  const busy = disks.find(disk => !disk.quiet)
  if (busy) return `Volume ${busy.name} is being changed, kept or cloned now. Try again after that.`
  const shared = disks.find(disk => disk.bound && disk.shared)
  if (shared) return `Other VMs on its host read volume ${shared.name}, too. Detach it from one of the apps.`
  return keptBehind(snapshots, new Set(disks.map(disk => disk.volumeId)))?.why
}

/** Whether, and how, the VM can go from one host to the other. `moveObstacle` has been asked. */
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
  // An agent that does not say so waits for a guest that runs until its memory is given up.
  const stuck = vm.want === 'paused' && !both(offer => offersFeature(offer, 'paused-moves') === true)
  const resumeFirst = `The VM is paused, and ${vm.hypervisor} cannot take it to host ${target.name} so. Resume it first.`
  if (disks.length === 0) {
    if (!both(({ capabilities }) => capabilities.migrate !== 'none'))
      return { why: `Host ${target.name} cannot receive a VM of ${vm.hypervisor}.` }
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
  // What a hypervisor may not write to it cannot fill over there either.
  const running = live && carried && !disks.some(disk => disk.readOnly)
  if (running && stuck) return { why: resumeFirst }
  return { plan: { method: running ? 'live' : 'stop-and-copy', volumes, withVolumes: true } }
}
