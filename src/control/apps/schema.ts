import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, list, text } from '../http/types.ts'
import {
  CreateAppRequest,
  DeployAppRequest,
  DeployRequest,
  PutAppEnvRequest,
  ScaleAppRequest,
  UpdateAppRequest,
} from './bodies.ts'
import { App, AppEnv, AppSecret, DeployResponse, ScaledApp } from './resources.ts'

export { App } from './resources.ts'

const shared = { tag: 'Apps', auth: 'bearer', project: 'selected' } as const
const appName = () => text({ description: 'Name of the app.', examples: ['web'] })
const params = Type.Object({ app_name: appName() })
const ofEnv = Type.Object({
  app_name: appName(),
  name: text({ maxLength: 128, description: 'Name of the variable.', examples: ['DATABASE_URL'] }),
})

export const appOperations = operations({
  listAppEnv: {
    method: 'GET',
    path: '/v1/apps/{app_name}/env',
    summary: 'List the environment variables of an app',
    description: 'Returns the variables. Values of secrets are never shown.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['name'] },
    answer: list(AppEnv),
    addition: true,
    items: [
      {
        id: 'getAppEnv',
        path: '/v1/apps/{app_name}/env/{name}',
        by: 'name',
        summary: 'Get an environment variable of an app',
        description: 'Returns one variable. The value of a secret is never shown.',
      },
    ],
  },
  putAppEnv: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/env/{name}',
    summary: 'Set an environment variable of an app',
    description: 'Creates the variable or replaces its value. The app gets the new value with its next deployment.',
    ...shared,
    scope: 'write',
    params: ofEnv,
    body: PutAppEnvRequest,
    fails: [409],
    answer: acknowledgement('set'),
    addition: true,
  },
  deleteAppEnv: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/env/{name}',
    summary: 'Delete an environment variable of an app',
    description: 'Removes the variable. Running VMs keep it until the next deployment.',
    ...shared,
    scope: 'write',
    params: ofEnv,
    answer: acknowledgement('deleted'),
    addition: true,
  },
  listApps: {
    method: 'GET',
    path: '/v1/apps',
    summary: 'List the apps of a project',
    description: 'Returns the apps of the project, newest first.',
    ...shared,
    scope: 'read',
    list: { order: ['-id'], filters: ['name', 'scale_state'] },
    answer: list(App),
  },
  createApp: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/apps',
    summary: 'Create an app',
    description: 'Creates an app and its host name. No VM runs before the first deployment.',
    ...shared,
    scope: 'write',
    body: CreateAppRequest,
    maxBytes: 1 << 16,
    answer: App,
  },
  getApp: {
    method: 'GET',
    path: '/v1/apps/{app_name}',
    summary: 'Get an app',
    description:
      'Returns one app and its scaling settings. With `wait=active` the response is delayed until VMs serve requests.',
    ...shared,
    scope: 'read',
    params,
    answer: App,
    waits: 'scale_state',
  },
  updateApp: {
    method: 'PATCH',
    path: '/v1/apps/{app_name}',
    summary: 'Change an app',
    description:
      'Changes the given settings; the others stay unchanged. The changes take effect with the next deployment.',
    ...shared,
    scope: 'write',
    params,
    body: UpdateAppRequest,
    maxBytes: 1 << 16,
    answer: App,
  },
  deleteApp: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}',
    summary: 'Delete an app',
    description:
      'Stops the VMs of the app and deletes the app with its deployments, variables and domains. Its volumes are not deleted.',
    ...shared,
    scope: 'write',
    params,
    answer: acknowledgement('deleting'),
  },
  getAppSecret: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/apps/{app_name}/secret',
    summary: 'Get the webhook secret of an app',
    description:
      'Returns the secret with which the Git host signs webhooks for this app, and the URL that it delivers them to.',
    ...shared,
    scope: 'write',
    params,
    answer: AppSecret,
  },
  scaleApp: {
    method: 'PATCH',
    path: '/v1/apps/{app_name}/scale',
    summary: 'Scale an app',
    description:
      'Changes the number of VMs and autoscaling; omitted fields stay unchanged. VMs start and stop after the response; if some must wait for capacity, `message` reports this.',
    ...shared,
    scope: 'write',
    params,
    body: ScaleAppRequest,
    changes: '/v1/apps/{app_name}',
    bodyRequired: true,
    fails: [409],
    answer: ScaledApp,
  },
  deploy: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/deploy',
    summary: 'Deploy an image',
    description:
      'Deploys an image to the named app, which is created if it does not exist. The response is sent before VMs start: wait for `running` with `GET /v1/apps/{app_name}/deployments/{job_id}`.',
    ...shared,
    scope: 'deploy',
    body: DeployRequest,
    answer: DeployResponse,
  },
  deployApp: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/apps/{app_name}/deploy',
    summary: 'Deploy an app',
    description:
      'Deploys the given image or uploaded source. If neither is given, builds the repository of the app, or deploys the previous image again if the app has no repository. The current VMs keep serving until the new ones are healthy.',
    ...shared,
    scope: 'deploy',
    params,
    body: DeployAppRequest,
    bodyRequired: true,
    answer: DeployResponse,
  },
})
