/** How a VM can get to another host, with the volumes that it has. */
import type { HypervisorOffer } from '../../contract/agent.ts'
import type { Sql } from '../../db/db.ts'
import { listPools } from '../hosts/index.ts'
import { fitMoved, fitVolumes } from '../scheduler/pools.ts'
import * as store from './moving-store.ts'

export interface MovePlan {
  /** `live`: it runs on meanwhile. `stop-and-copy`: with volumes it is stopped here and starts there. */
  readonly method: 'live' | 'stop-and-copy'
  /** Those that have to be carried over, with their pool there. */
  readonly volumes: readonly { readonly volumeId: string; readonly pool: string }[]
  readonly withVolumes: boolean
}

/** `why`: for people. */
export type MoveChoice = { readonly plan: MovePlan } | { readonly why: string }

interface End {
  readonly id: string
  readonly name: string
  readonly hypervisors: readonly HypervisorOffer[]
}

/** What keeps the VM from leaving its host with its volumes, whatever the other one is; undefined: nothing. */
export async function moveObstacle(
  sql: Sql,
  vm: { readonly id: string; readonly want: string },
): Promise<string | undefined> {
  const disks = await store.disks(sql, vm.id)
  if (disks.length === 0) return undefined
  if (vm.want !== 'running' && vm.want !== 'paused') return 'The VM is about to end.'
  const busy = disks.find(disk => !disk.quiet)
  if (busy) return `Volume ${busy.name} is being changed, kept or cloned now. Try again after that.`
  const shared = disks.find(disk => disk.bound && disk.shared)
  if (shared) return `Other VMs on its host read volume ${shared.name}, too. Detach it from one of the apps.`
  const kept = await store.kept(sql, vm.id)
  return kept && `Snapshot ${kept.name} of the VM has what its volumes held, and could not go along. Delete it first.`
}

/** Whether, and how, the VM can go from one host to the other. `moveObstacle` has been asked. */
export async function chooseMove(
  sql: Sql,
  vm: { readonly id: string; readonly hypervisor: string | null },
  source: End,
  target: End,
): Promise<MoveChoice> {
  const offerOf = (end: End) => end.hypervisors.find(one => one.name === vm.hypervisor && one.available)
  const [here, there] = [source.hypervisors.find(one => one.name === vm.hypervisor), offerOf(target)]
  if (!here || !there) return { why: `Host ${target.name} does not offer ${vm.hypervisor}.` }
  const disks = await store.disks(sql, vm.id)
  const both = (holds: (offer: HypervisorOffer) => boolean) => holds(here) && holds(there)
  const live = both(({ capabilities }) => capabilities.migrate === 'live')
  if (disks.length === 0) {
    if (!both(({ capabilities }) => capabilities.migrate !== 'none'))
      return { why: `Host ${target.name} cannot receive a VM of ${vm.hypervisor}.` }
    return { plan: { method: live ? 'live' : 'stop-and-copy', volumes: [], withVolumes: false } }
  }
  const pools = await listPools(sql)
  const [bound, reached] = [disks.filter(disk => disk.bound), disks.filter(disk => !disk.bound)]
  const places = fitMoved(pools, target.id, bound)
  if (!places || !fitVolumes(pools, target.id, reached))
    return { why: `Host ${target.name} has no storage pool with room for the volumes of the VM.` }
  const volumes = [...places].map(([volumeId, { name }]) => ({ volumeId, pool: name }))
  const encrypted = [...places.values()].some(pool => pool.encrypted)
  if (encrypted && there.features && !there.features.includes('encrypted-volumes'))
    return { why: `${vm.hypervisor} on host ${target.name} cannot open encrypted volumes.` }
  const carried = reached.length === 0 && both(({ features }) => features?.includes('moved-volumes') === true)
  // What a hypervisor may not write to it cannot fill over there either.
  const running = live && carried && !disks.some(disk => disk.readOnly)
  return { plan: { method: running ? 'live' : 'stop-and-copy', volumes, withVolumes: true } }
}
