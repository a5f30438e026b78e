/** Takes VMs off a host that is being emptied, while they run. */
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts, reserve } from '../hosts/index.ts'
import { type Placement, place } from '../scheduler/place.ts'
import {
  chooseMove,
  type CoMoved,
  coMovedOf,
  type MovePlan,
  migrationsFrom,
  moveObstacle,
  startMigration,
} from '../migrations/index.ts'
import type { Deployment, DeploymentVm } from './store.ts'

/** Each copies memory as fast as it can: more at once would only make all of them slow. */
const mostFromOneHost = 4

/**
 * Starts the move of a VM to the host that the scheduler names, with its room reserved there. Does nothing while there
 * is no such host, or while enough others leave the same one; whoever ends pokes.
 */
export async function moveAway(tx: Tx, deps: Pick<Deps, 'config'>, d: Deployment, vm: DeploymentVm): Promise<void> {
  const hosts = await listHosts(tx, deps.config.hostTimeoutSeconds)
  const source = hosts.find(host => host.id === vm.hostId)
  if (!source || (await migrationsFrom(tx, source.id)) >= mostFromOneHost) return
  const coMoved = await coMovedOf(tx, vm.id)
  if (moveObstacle(vm, coMoved)) return
  const { plans } = plansFor(hosts, source, vm, coMoved)
  const { host } = placeFor(hosts, plans, d, vm)
  const plan = host && plans.get(host.id)
  if (!plan || !(await reserve(tx, host.id, sizeOf(d)))) return
  const ends = { vmId: vm.id, sourceHostId: source.id, targetHostId: host.id }
  const { method, withVolumes, volumes } = plan
  await startMigration(tx, { ...d, ...ends, deploymentId: d.id, method, withVolumes }, volumes)
}

/** How the VM could get to each of the other hosts; and why not to those to which it cannot. */
export function plansFor(
  hosts: readonly HostRow[],
  source: HostRow,
  vm: DeploymentVm,
  coMoved: CoMoved,
): { readonly plans: ReadonlyMap<string, MovePlan>; readonly why: readonly string[] } {
  const plans = new Map<string, MovePlan>()
  const why: string[] = []
  for (const target of hosts.filter(one => one.id !== source.id && one.arch === source.arch)) {
    const choice = chooseMove(vm, source, target, coMoved)
    if ('why' in choice) why.push(choice.why)
    // Without volumes it can be replaced, which costs it less than to be stopped.
    else if (choice.plan.withVolumes || choice.plan.method === 'live') plans.set(target.id, choice.plan)
  }
  return { plans, why }
}

/** Of the hosts to which it can get, the one that the scheduler names now. */
export function placeFor(
  hosts: readonly HostRow[],
  plans: ReadonlyMap<string, MovePlan>,
  d: Deployment,
  vm: DeploymentVm,
): Placement {
  const siblings = new Set(d.vms.flatMap(one => (one.id !== vm.id && one.hostId ? [one.hostId] : [])))
  return place(
    hosts.filter(one => plans.has(one.id)),
    { hypervisor: vm.hypervisor ?? undefined, ...sizeOf(d), siblings },
  )
}

const sizeOf = ({ vcpus, memoryMib, diskMib }: Deployment) => ({ vcpus, memoryMib, diskMib })
