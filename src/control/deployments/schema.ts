import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { filterFields } from '../app-logs/index.ts'
import { list, text, uint32, uuid } from '../http/types.ts'
export { AppScaleState } from './resources.ts'
import { Deployment, DeploymentAction, DeploymentDiff, LiveDeployment, LiveDeploymentStatus } from './resources.ts'
import { deploymentEvents, logEvents, metricsEvents, workspaceEvents } from './streams.ts'

export { Deployment, DeploymentDiff, LiveDeployment, LiveDeploymentStatus, logEvents, metricsEvents }

const shared = { tag: 'Deployments', auth: 'bearer', project: 'selected' } as const
const appName = () => text({ description: 'Name of the app.', examples: ['web'] })
const ofApp = Type.Object({ app_name: appName() })
const ofJob = Type.Object({
  app_name: appName(),
  job_id: text({ description: 'Job id, or UUID of the deployment.', examples: ['job-3f6d0c4f2a1097e0'] }),
})
/** The log filters that apply to a single deployment. */
const { deployment: _, ...ofOneDeployment } = filterFields
const logQuery = {
  tail: Type.Optional(
    uint32({
      maximum: 10_000,
      description:
        'Number of stored log lines to send first, for all VMs together. Default: 100, or 10000 with `since`.',
      examples: [100],
    }),
  ),
}

export const deploymentOperations = operations({
  listDeployments: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments',
    summary: 'List the deployments of an app',
    description: 'Returns the deployments of the app, newest first, including those that ended.',
    ...shared,
    scope: 'read',
    params: ofApp,
    list: { order: ['-id'], filters: ['status', 'git_branch', 'trigger_source'] },
    answer: list(Deployment),
  },
  streamDeployments: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/stream',
    summary: 'Follow the deployments of an app',
    description:
      'Sends the deployments of the app as `snapshot`, then each status change as `deployment.status`. Resume with `Last-Event-ID`.',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: 'stream',
    events: deploymentEvents,
  },
  streamAppLogs: {
    method: 'GET',
    path: '/v1/apps/{app_name}/logs/stream',
    summary: 'Follow the logs of an app',
    description:
      'Sends stored log lines, then each new line of all VMs and builds of the app, including those of later deployments. The id of an event is the time of its line in microseconds, so that `Last-Event-ID` resumes after the last received line.',
    ...shared,
    scope: 'read',
    params: ofApp,
    query: Type.Object({ ...logQuery, ...filterFields }),
    answer: 'stream',
    events: logEvents,
  },
  streamAppMetrics: {
    method: 'GET',
    path: '/v1/apps/{app_name}/metrics/stream',
    summary: 'Follow the metrics of an app',
    description:
      'Sends the metrics of all live deployments as `snapshot`, then those of each deployment once a second as `metrics`.',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: 'stream',
    events: metricsEvents,
  },
  streamWorkspace: {
    method: 'GET',
    path: '/v1/workspace/events',
    summary: 'Follow all events of a project',
    description:
      'Sends the live deployments as `snapshot`, then every event of the project: deployment statuses, security rules, domains, and notifications to the caller.',
    ...shared,
    scope: 'read',
    answer: 'stream',
    events: workspaceEvents,
  },
  streamAllDeployments: {
    method: 'GET',
    path: '/v1/deployments/events',
    summary: 'Follow the deployments of a project',
    description:
      'Sends the live deployments of every app as `snapshot`, then each status change as `deployment.status`. Resume with `Last-Event-ID`.',
    ...shared,
    scope: 'read',
    answer: 'stream',
    events: deploymentEvents,
  },
  listActiveDeployments: {
    method: 'GET',
    path: '/v1/deployments/active',
    summary: 'List the live deployments of a project',
    description: 'Returns the deployments that run or are about to run, with their current metrics, newest first.',
    ...shared,
    scope: 'read',
    list: { order: ['-deployment_id'], filters: ['status', 'app_name'] },
    answer: list(LiveDeployment),
  },
  activateDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{deployment_id}/activate',
    summary: 'Activate a deployment',
    description:
      'Makes this deployment the active one, for example to roll back. Its VMs start first; the current deployment keeps serving until they are healthy.',
    ...shared,
    scope: 'deploy',
    params: Type.Object({
      app_name: appName(),
      deployment_id: uuid({ description: 'UUID of the deployment.' }),
    }),
    answer: Deployment,
  },
  getDeployment: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}',
    summary: 'Get a deployment',
    description:
      'Returns the current state of one deployment, with its metrics. With `wait=running,failed` the response is delayed until the rollout has succeeded or failed.',
    ...shared,
    scope: 'read',
    params: ofJob,
    answer: LiveDeploymentStatus,
    waits: 'status',
  },
  compareDeployment: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}/diff',
    summary: 'Compare two deployments',
    description:
      'Returns the differences between the deployment and another one of the app: image, commit, size, settings, names of variables, and paths of files.',
    ...shared,
    scope: 'read',
    params: ofJob,
    query: Type.Object({
      base: Type.Optional(
        text({
          maxLength: 64,
          description:
            'Job id or UUID of the deployment to compare with. Default: the deployment that was created before this one.',
          examples: ['job-77aa01e2c1d04f5b'],
        }),
      ),
    }),
    answer: DeploymentDiff,
    addition: true,
  },
  stopDeployment: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/deployments/{job_id}',
    summary: 'Stop a deployment',
    description:
      'Stops the VMs of the deployment. The deployment can be activated again later. While its active deployment is stopped, an app serves no requests.',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: DeploymentAction,
  },
  streamDeploymentLogs: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deployments/{job_id}/logs',
    summary: 'Follow the logs of a deployment',
    description:
      "Sends stored log lines, then each new line of the deployment's VMs and build. The id of an event is the time of its line in microseconds, so that `Last-Event-ID` resumes after the last received line.",
    ...shared,
    scope: 'read',
    params: ofJob,
    query: Type.Object({ ...logQuery, ...ofOneDeployment }),
    answer: 'stream',
    events: logEvents,
  },
  pauseDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/pause',
    summary: 'Pause a deployment',
    description: 'Pauses the VMs of the deployment: they keep their memory, but do not run until they are resumed.',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: DeploymentAction,
  },
  cancelDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/cancel',
    summary: 'Cancel a deployment',
    description:
      'Cancels a deployment that does not serve requests yet, including its build. The current deployment keeps serving.',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: DeploymentAction,
    addition: true,
  },
  resumeDeployment: {
    method: 'POST',
    path: '/v1/apps/{app_name}/deployments/{job_id}/resume',
    summary: 'Resume a deployment',
    description: 'Resumes the paused VMs of the deployment where they stopped.',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: DeploymentAction,
  },
  deleteDeployment: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/deployments/{job_id}/delete',
    summary: 'Delete a deployment',
    description: 'Stops the deployment if it runs, and deletes it. It cannot be activated again.',
    ...shared,
    scope: 'deploy',
    params: ofJob,
    answer: DeploymentAction,
  },
})
