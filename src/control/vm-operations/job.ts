/**
 * Common first steps of the operations on running VMs: find the deployment and its VM, and check the hypervisor's
 * capabilities.
 */
import { BusError } from '../../bus/bus.ts'
import { type Capabilities, type HypervisorOffer, offersFeature } from '../../contract/agent.ts'
import type { Sql, Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { type Deployment, type DeploymentVm, findDeployment, lockDeployment } from '../deployments/index.ts'
import { type HostRow, findHost } from '../hosts/index.ts'
import { ApiError, invalidState, notFound } from '../http/errors.ts'
import { disksOf } from '../vms/index.ts'

export interface JobCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly job_id: string }
}

export async function jobOf(sql: Sql, { project, params }: JobCall): Promise<Deployment> {
  const d = await findDeployment(sql, project.id, params.app_name, params.job_id)
  if (!d) throw notFound()
  return d
}

/** Finds the deployment like `jobOf`, and locks it until the transaction ends. */
export async function lockedJob(tx: Tx, { project, params }: JobCall): Promise<Deployment> {
  const d = await lockDeployment(tx, project.id, params.app_name, params.job_id)
  if (!d) throw notFound()
  return d
}

export interface Placed {
  readonly vm: DeploymentVm & { readonly hostId: string; readonly hypervisor: string }
  readonly host: HostRow
  readonly capabilities: Capabilities
  readonly offer: HypervisorOffer
}

/**
 * Returns the oldest VM that runs or is paused, with its host. @throws ApiError 409 `invalid_state` when there is none
 */
export async function placedVm(deps: Pick<Deps, 'config'>, sql: Sql, d: Deployment): Promise<Placed> {
  // A healthy VM counts as running even if its host has not reported the state yet.
  const live = (one: DeploymentVm) => one.healthy || one.observedState === 'running' || one.observedState === 'paused'
  const vm = d.vms.find(one => one.want !== 'absent' && live(one))
  const host = vm?.hostId ? await findHost(sql, deps.config.hostTimeoutSeconds, vm.hostId) : undefined
  const offer = host?.hypervisors.find(one => one.name === vm?.hypervisor)
  if (!vm?.hostId || !vm.hypervisor || !host || !offer)
    throw invalidState('The deployment has no running or paused VM. Wait until it is running, or activate it.')
  return {
    vm: { ...vm, hostId: vm.hostId, hypervisor: vm.hypervisor },
    host,
    capabilities: offer.capabilities,
    offer,
  }
}

/** Checks that the VM's hypervisor has the capability. @throws ApiError 409 `unsupported_by_hypervisor` */
export function requireCapability(
  { vm, capabilities }: Placed,
  name: 'snapshot' | 'balloon' | 'migrate' | 'hotplugDisk',
): void {
  const able = capabilities[name]
  if (able === false || able === 'none') throw unsupported(vm.hypervisor, name)
}

/**
 * Checks that a snapshot of the VM can include its volumes. @throws ApiError 409 `unsupported_by_hypervisor` when the
 * VM has volumes and its hypervisor cannot include them
 */
export async function requireRetainedVolumes(sql: Sql, { vm, offer }: Placed): Promise<void> {
  if (offersFeature(offer, 'kept-volumes') || (await disksOf(sql, vm.id)).length === 0) return
  throw unsupported(vm.hypervisor, 'keptVolumes')
}

const words = {
  keptVolumes: 'snapshot a VM together with its volumes (detach them, or snapshot the volumes)',
  snapshot: 'take snapshots',
  balloon: 'change the memory of a VM',
  migrate: 'move a VM',
  hotplugDisk: 'attach volumes to a running VM',
  exec: 'run commands',
} as const

function unsupported(hypervisor: string, what: keyof typeof words): ApiError {
  return new ApiError(
    'unsupported_by_hypervisor',
    `The hypervisor ${hypervisor} of this VM cannot ${words[what]} on its host.`,
  )
}

/** Converts the error of a host that refused a request into an API error; returns any other error unchanged. */
export function refusalOf(cause: unknown, { vm }: Placed): unknown {
  if (!(cause instanceof BusError)) return cause
  if (cause.remoteCode === 'unsupported_by_hypervisor') return unsupported(vm.hypervisor, 'exec')
  if (cause.remoteCode === 'invalid_state' || cause.remoteCode === 'invalid_vm') return invalidState(cause.message)
  return cause
}
