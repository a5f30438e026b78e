/** Takes VMs off a host that is being emptied, while they run. */
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../deps.ts'
import { type HostRow, listHosts, reserve } from '../hosts/index.ts'
import { place } from '../scheduler/place.ts'
import { migrationsFrom, startMigration } from '../vms/index.ts'
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
  const siblings = new Set(d.vms.flatMap(one => (one.id !== vm.id && one.hostId ? [one.hostId] : [])))
  const { host } = place(
    hosts.filter(one => takesFrom(source, one, vm)),
    { hypervisor: vm.hypervisor ?? undefined, ...sizeOf(d), siblings },
  )
  if (!host || !(await reserve(tx, host.id, sizeOf(d)))) return
  const ends = { vmId: vm.id, sourceHostId: source.id, targetHostId: host.id }
  await startMigration(tx, { ...d, ...ends, deploymentId: d.id, method: 'live' })
}

const sizeOf = ({ vcpus, memoryMib, diskMib }: Deployment) => ({ vcpus, memoryMib, diskMib })

const takesFrom = (source: HostRow, target: HostRow, vm: DeploymentVm) =>
  target.id !== source.id &&
  target.arch === source.arch &&
  target.hypervisors.some(offer => offer.name === vm.hypervisor && offer.capabilities.migrate === 'live')
