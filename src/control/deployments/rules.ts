import { can, type DeploymentStatus, type DeploymentVerb } from '../../contract/deployments.ts'
import { ApiError, invalidField } from '../http/errors.ts'
import { hypervisorNumber } from '../vms/index.ts'

export { can, type DeploymentVerb as Verb }
export type { DeploymentStatus }

export interface VmFacts {
  readonly want: 'running' | 'paused' | 'stopped' | 'absent'
  readonly hostId: string | null
  readonly observedState:
    | 'preparing'
    | 'booting'
    | 'running'
    | 'paused'
    | 'stopping'
    | 'stopped'
    | 'crashed'
    | 'absent'
    | null
  readonly healthy: boolean
  /** Exit code of the VM's last program that ended. */
  readonly exitCode?: number | null
  /** True while the VM is moving to another host. */
  readonly migrating?: boolean
}

export interface DeploymentFacts {
  readonly want: 'running' | 'paused' | 'stopped' | 'deleted'
  readonly outcome: 'stopped' | 'superseded' | 'failed' | 'cancelled' | null
  /** Phase of the deployment's workflow; null once the workflow has finished. */
  readonly phase:
    | 'building'
    | 'releasing'
    | 'rolling'
    | 'canary'
    | 'serving'
    | 'suspending'
    | 'sleeping'
    | 'waking'
    | 'draining'
    | 'failing'
    | 'stopping'
    | null
  readonly vms: readonly VmFacts[]
  /** True if the deployment was activated while it was taken down. It is then rolled out again. */
  readonly reactivated: boolean
}

/**
 * Returns the deployment's status for users. The status is derived from the facts, so the two never contradict each
 * other.
 */
export function statusOf(d: DeploymentFacts): DeploymentStatus {
  if (d.outcome) return d.outcome
  if (d.want === 'deleted' || d.want === 'stopped') return 'stopping'
  if (d.phase === 'stopping' || d.phase === 'draining') return d.reactivated ? 'pending' : 'stopping'
  if (d.phase === 'sleeping') return 'sleeping'
  if (d.phase === 'building') return 'building'
  if (d.phase === 'releasing') return 'starting'
  const vms = d.vms.filter(vm => vm.want !== 'absent')
  if (d.want === 'paused') return vms.every(vm => vm.observedState === 'paused') ? 'paused' : 'pausing'
  if (vms.some(vm => vm.observedState === 'paused' || vm.want === 'paused')) return 'resuming'
  const isComing = d.phase === 'rolling' || d.phase === 'canary'
  if (!isComing && vms.some(vm => vm.migrating)) return 'migrating'
  if (vms.some(vm => vm.healthy)) return isComing ? 'starting' : 'running'
  if (d.phase === 'serving' || d.phase === 'suspending') return 'unhealthy'
  if (vms.some(vm => vm.observedState !== null)) return 'starting'
  if (vms.some(vm => vm.hostId !== null)) return 'scheduled'
  return 'pending'
}

/**
 * Checks that the deployment's status allows the verb.
 * @throws ApiError 409 `invalid_state` naming the verb, the status and the statuses that allow the verb
 */
export function assertCan(verb: DeploymentVerb, status: DeploymentStatus): void {
  const possible: readonly DeploymentStatus[] = can[verb]
  if (!possible.includes(status))
    throw new ApiError(
      'invalid_state',
      `Cannot ${verb} a deployment that is ${status}. Allowed while: ${possible.join(', ')}.`,
    )
}

export const memorySizesMib = [512, 1024, 2048, 4096] as const
export const vcpuCounts = [1, 2, 3, 4] as const
export const defaultDiskMib = 1024

export interface DeployRequest {
  readonly image?: string | undefined
  readonly hypervisor?: string | undefined
  readonly vcpus?: number | undefined
  readonly memory_mib?: number | undefined
  readonly disk_mib?: number | undefined
  readonly port?: number | undefined
}

export interface DeployShape {
  readonly image: string
  readonly hypervisor: number
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly port: number
}

const imagePattern = /^(?:oci:[a-z0-9][a-z0-9._-]{0,63}(?::[\w][\w.-]{0,127})?|[a-zA-Z0-9][\w./:@-]{0,510})$/

/**
 * Returns the image, sizes and hypervisor that a request asks for, with defaults for absent fields.
 * @throws ApiError 400 naming the field. `memory_mib` is 512, 1024, 2048 or 4096 and `vcpus` 1 to 4 (the contract's
 * constraints for manual deployments); `hypervisor` is one of the contract's two, or `qemu` or `fake` as additions.
 */
export function deployShape(request: DeployRequest, defaults: { readonly port: number }): DeployShape {
  return { image: checkImage(request.image), ...deploySizes(request, defaults) }
}

function checkImage(image: string | undefined): string {
  if (image === undefined || image === '')
    throw invalidField('image', 'give an image reference, for example docker.io/library/nginx:1.27')
  if (!imagePattern.test(image) || image.includes('..'))
    throw invalidField('image', 'is not an image reference such as registry.example/team/app:1.0 or oci:name')
  return image
}

/**
 * Returns the same as `deployShape` without the image, which is still to be built.
 * @throws ApiError 400 naming the field
 */
export function deploySizes(
  request: Omit<DeployRequest, 'image'>,
  defaults: { readonly port: number },
): Omit<DeployShape, 'image'> {
  const hypervisor = hypervisorNumber(request.hypervisor)
  if (hypervisor === undefined)
    throw invalidField('hypervisor', 'must be vm, firecracker, cloud-hypervisor, gvisor or qemu, or be left out')
  const memoryMib = request.memory_mib ?? 512
  if (!memorySizesMib.some(size => size === memoryMib))
    throw invalidField('memory_mib', 'must be 512, 1024, 2048 or 4096')
  const vcpus = request.vcpus ?? 1
  if (!vcpuCounts.some(count => count === vcpus)) throw invalidField('vcpus', 'must be 1, 2, 3 or 4')
  const diskMib = request.disk_mib ?? defaultDiskMib
  if (diskMib < 64 || diskMib > 1_048_576) throw invalidField('disk_mib', 'must be from 64 to 1048576')
  const port = request.port ?? defaults.port
  if (port < 1 || port > 65_535) throw invalidField('port', 'must be from 1 to 65535')
  return { hypervisor, vcpus, memoryMib, diskMib, port }
}

/**
 * Returns the tag or digest of an image reference for display: `latest` when the reference has neither; empty while the
 * deployment has no image.
 */
export function imageTag(image: string): string {
  if (image === '') return ''
  const digest = image.indexOf('@')
  if (digest !== -1) return image.slice(digest + 1)
  const name = image.startsWith('oci:') ? image.slice(4) : image.slice(image.lastIndexOf('/') + 1)
  const colon = name.indexOf(':')
  return colon === -1 ? 'latest' : name.slice(colon + 1)
}
