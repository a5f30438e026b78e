import { Type } from 'typebox'
import { deploymentStatuses, type DeploymentStatus } from '../../contract/deployments.ts'
import { operations } from '../http/operation.ts'
import { list, text, uint32, uuid } from '../http/types.ts'
import { Deployment, LiveDeployment, LiveDeploymentStatus } from './resources.ts'
import { deploymentEvents, logEvents, metricsEvents, workspaceEvents } from './streams.ts'

export { Deployment, LiveDeployment, LiveDeploymentStatus, logEvents, metricsEvents }
export { deploymentStatuses, type DeploymentStatus }

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
    events: deploymentEvents,
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
    events: logEvents,
  },
  streamAppMetrics: {
    method: 'GET',
    path: '/v1/apps/{app_name}/metrics/stream',
    summary: 'Live numbers of an app: `metrics` events',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: 'stream',
    events: metricsEvents,
  },
  streamWorkspace: {
    method: 'GET',
    path: '/v1/workspace/events',
    summary: 'Everything that happens in the project, notifications included',
    ...shared,
    scope: 'read',
    answer: 'stream',
    events: workspaceEvents,
  },
  streamAllDeployments: {
    method: 'GET',
    path: '/v1/deployments/events',
    summary: 'Deployments of every app of the project: `snapshot`, then `deployment.status` events',
    ...shared,
    scope: 'read',
    answer: 'stream',
    events: deploymentEvents,
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
    events: logEvents,
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
