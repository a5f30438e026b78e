/** What the operations of deployments speak of. */
import type { Static } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import { AppScaleState } from '../apps/schema.ts'
import { dateTime, double, int64, list, resource, text, uuid } from '../http/types.ts'

const status = () => text({ description: deploymentStatuses.map(name => `\`${name}\``).join(', ') })

export const Deployment = resource('Deployment', {
  id: uuid(),
  app_id: uuid(),
  tenant_id: uuid(),
  job_id: text(),
  build_id: text({ description: 'Empty when nothing was built.' }),
  image_tag: text(),
  status: status(),
  created_at: dateTime(),
  updated_at: dateTime(),
  disk_mib: int64(),
  memory_mib: int64(),
  vcpus: int64(),
  port: int64(),
  hypervisor: int64({ description: '0 left to the scheduler, 1 firecracker, 2 cloud-hypervisor, 3 qemu, 9 fake' }),
  ipv6_address: text({ description: 'Of the first VM; empty until it has one.' }),
  git_branch: text(),
  git_commit_hash: text(),
  git_commit_message: text(),
  trigger_source: text({
    description: '`manual`, `api`, `push` or `rollback`. Autoscaling changes replicas, and deploys nothing.',
  }),
})
export type Deployment = Static<typeof Deployment>

const live = {
  app_id: text(),
  app_name: text(),
  deployment_id: text(),
  job_id: text(),
  vm_id: text({ description: 'First VM; empty until one is placed.' }),
  host_id: text(),
  hypervisor: text(),
  image: text(),
  ipv6_address: text(),
  status: status(),
  scale_state: AppScaleState,
  cpu_usage: double({ description: 'Percent of the vCPUs it has, 0 to 100.' }),
  memory_mib: int64(),
  ram_used_bytes: int64(),
  rx_bytes: int64(),
  tx_bytes: int64(),
  vcpus: int64(),
}
const instant = (what: string) => int64({ description: `${what}: seconds since 1970, 0 if that has not happened.` })

export const LiveDeployment = resource('LiveDeployment', live)
export type LiveDeployment = Static<typeof LiveDeployment>

export const LiveDeploymentStatus = resource('LiveDeploymentStatus', {
  ...live,
  error_message: text({ description: 'Empty when nothing is wrong.' }),
  scheduled_at: instant('When it was placed on a host'),
  started_at: instant('When it first passed its health check'),
  stopped_at: instant('When its last VM stopped'),
  steps: list(resource('DeploymentStep', { name: text(), ms: double() }), {
    description: 'What bringing up the first VM took, step by step: image, base, disk, spawn, boot, healthy.',
  }),
})
export type LiveDeploymentStatus = Static<typeof LiveDeploymentStatus>
