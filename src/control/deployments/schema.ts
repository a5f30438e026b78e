import { type Static, Type } from 'typebox'
import { deploymentStatuses, type DeploymentStatus } from '../../contract/deployments.ts'
import { AppScaleState } from '../apps/schema.ts'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, list, resource, text, uint32, uuid } from '../http/types.ts'

export { deploymentStatuses, type DeploymentStatus }

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

const shared = { tag: 'Deployments', auth: 'bearer', project: 'selected' } as const
const ofApp = Type.Object({ app_name: text() })
const ofJob = Type.Object({ app_name: text(), job_id: text({ description: 'Job id, or uuid of the deployment.' }) })
/** The stream of a log starts with the newest lines that are kept. */
const logQuery = Type.Object({
  tail: Type.Optional(uint32({ maximum: 10_000, default: 100, description: 'Lines of the past to begin with.' })),
})

export const deploymentOperations = operations({
  listDeployments: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments',
    summary: 'Deployments of an app, newest first',
    ...shared,
    scope: 'read',
    params: ofApp,
    list: { order: ['-id'], filters: ['status', 'git_branch', 'trigger_source'] },
    answer: list(Deployment),
  },
  streamDeployments: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/stream',
    summary: 'Deployments of an app: `snapshot`, then `deployment.status` events',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: 'stream',
  },
  streamAppLogs: {
    method: 'GET',
    path: '/v1/apps/{app_name}/logs/stream',
    summary: 'Log lines of every VM of an app: `log` events',
    ...shared,
    scope: 'read',
    params: ofApp,
    query: logQuery,
    answer: 'stream',
  },
  streamAppMetrics: {
    method: 'GET',
    path: '/v1/apps/{app_name}/metrics/stream',
    summary: 'Live numbers of an app: `metrics` events',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: 'stream',
  },
  streamWorkspace: {
    method: 'GET',
    path: '/v1/workspace/events',
    summary: 'Everything that happens in the project, notifications included',
    ...shared,
    scope: 'read',
    answer: 'stream',
  },
  streamAllDeployments: {
    method: 'GET',
    path: '/v1/deployments/events',
    summary: 'Deployments of every app of the project: `snapshot`, then `deployment.status` events',
    ...shared,
    scope: 'read',
    answer: 'stream',
  },
  listActiveDeployments: {
    method: 'GET',
    path: '/v1/deployments/active',
    summary: 'What runs now in the project, with live numbers',
    ...shared,
    scope: 'read',
    list: { order: ['-deployment_id'], filters: ['status', 'app_name'] },
    answer: list(LiveDeployment),
  },
  activateDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{deployment_id}/activate',
    summary: 'Rolls the app out, or back, to this deployment',
    ...shared,
    scope: 'deploy',
    params: Type.Object({ app_name: text(), deployment_id: uuid() }),
    answer: Deployment,
  },
  getDeployment: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}',
    summary: 'One deployment as it is now',
    ...shared,
    scope: 'read',
    params: ofJob,
    answer: LiveDeploymentStatus,
    waits: 'status',
  },
  stopDeployment: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/deployments/{job_id}',
    summary: 'Stops the VMs of a deployment; its record stays',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: 'free',
  },
  streamDeploymentLogs: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}/logs',
    summary: 'Log lines of one deployment: `log` events',
    ...shared,
    scope: 'read',
    params: ofJob,
    query: logQuery,
    answer: 'stream',
  },
  pauseDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/pause',
    summary: 'Freezes the VMs of a deployment where they are',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: 'free',
  },
  cancelDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/cancel',
    summary: 'Gives up a deployment that does not serve yet; what serves goes on',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: 'free',
    addition: true,
  },
  resumeDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/resume',
    summary: 'Lets paused VMs run on',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: 'free',
  },
  deleteDeployment: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/deployments/{job_id}/delete',
    summary: 'Deletes the record of a deployment, stopping it first',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: 'free',
  },
})
