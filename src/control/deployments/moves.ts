/** Moves VMs off a draining host while they run. */
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts, release, reserve } from '../hosts/index.ts'
import { type Placement, place } from '../scheduler/place.ts'
import { wishesOf } from '../scheduler/wishes.ts'
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

/**
 * Maximum number of VMs that leave one host at the same time. Each move copies memory at full speed, so more parallel
 * moves would slow all of them down.
 */
const mostFromOneHost = 4

/**
 * Starts moving a VM to the host that the scheduler picks, and reserves capacity there. Does nothing when no host is
 * suitable, or while enough VMs are leaving the source host. Each move pokes the deployment when it ends.
 */
export async function moveAway(tx: Tx, deps: Pick<Deps, 'config'>, d: Deployment, vm: DeploymentVm): Promise<void> {
  const hosts = await listHosts(tx, deps.config.hostTimeoutSeconds)
  const source = hosts.find(host => host.id === vm.hostId)
  const isFull = async (from: HostRow) => (await migrationsFrom(tx, from.id)) >= mostFromOneHost
  if (!source || (await isFull(source))) return
  const coMoved = await coMovedOf(tx, vm.id)
  if (moveObstacle(vm, coMoved)) return
  const { plans } = plansFor(hosts, source, vm, coMoved)
  const { host } = placeFor(deps, hosts, plans, d, vm)
  const plan = host && plans.get(host.id)
  if (!plan || !(await reserve(tx, host.id, sizeOf(d)))) return
  // Other deployments may have started moves from the source host in the meantime. The reservation has locked the
  // target's row, so their moves are visible now, and the limit is checked again.
  if (await isFull(source)) return void (await release(tx, host.id, sizeOf(d)))
  const ends = { vmId: vm.id, sourceHostId: source.id, targetHostId: host.id }
  const { method, withVolumes, volumes } = plan
  await startMigration(tx, { ...d, ...ends, deploymentId: d.id, method, withVolumes }, volumes)
}

/** Computes how the VM could move to each of the other hosts, and for the rest, why it cannot move there. */
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
    // A VM without volumes is replaced if it cannot move while it runs: a replacement interrupts the app less than a
    // move for which the VM is stopped.
    else if (choice.plan.withVolumes || choice.plan.method === 'live') plans.set(target.id, choice.plan)
  }
  return { plans, why }
}

/** Asks the scheduler for a host among those to which the VM can move. */
export function placeFor(
  { config }: Pick<Deps, 'config'>,
  hosts: readonly HostRow[],
  plans: ReadonlyMap<string, MovePlan>,
  d: Deployment,
  vm: DeploymentVm,
): Placement {
  const siblings = new Set(d.vms.flatMap(one => (one.id !== vm.id && one.hostId ? [one.hostId] : [])))
  return place(
    hosts.filter(one => plans.has(one.id)),
    {
      hypervisor: vm.hypervisor ?? undefined,
      ...sizeOf(d),
      siblings,
      wishes: wishesOf(d.appHosts, config.publicLabels),
    },
  )
}

const sizeOf = ({ vcpus, memoryMib, diskMib }: Deployment) => ({ vcpus, memoryMib, diskMib })
