import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  bool,
  dateTime,
  double,
  int32,
  int64,
  labelName,
  list,
  maybe,
  nullable,
  oneOf,
  rawText,
  resource,
  text,
  uint32,
  uuid,
} from '../http/types.ts'

export const appScaleStates = ['active', 'idle', 'scaled_to_zero', 'warming_up'] as const
export const AppScaleState = oneOf(appScaleStates, { title: 'AppScaleState' })
export type AppScaleState = Static<typeof AppScaleState>

export const App = resource('App', {
  id: uuid(),
  name: text(),
  git_url: text(),
  git_branch: text({ description: 'The branch that pushes and builds are of; empty: the default one.' }),
  git_submodules: bool({ description: 'Whether submodules on the same host are fetched for builds.' }),
  port: uint32({ description: 'Where the program in the VM listens.' }),
  health_check_path: text({ description: 'Must answer 2xx or 3xx before a deployment serves.' }),
  drain_timeout: int32({ description: 'Seconds the old VMs may finish their requests.' }),
  desired_replicas: int32(),
  min_replicas: int32({ description: '0 allows scale to zero.' }),
  max_replicas: int32(),
  autoscaling_enabled: bool(),
  cpu_threshold: double({ description: 'Percent, 0 to 100.' }),
  mem_threshold: double({ description: 'Percent, 0 to 100.' }),
  scale_state: AppScaleState,
  created_at: dateTime(),
  active_deployment_id: maybe(uuid()),
  hostname: maybe(text({ description: 'Where the gateway serves it.' })),
  scm_installation_id: maybe(int64()),
  scm_repo_full_name: maybe(text()),
  scm_repo_id: maybe(int64()),
  scm_webhook_secret: maybe(text({ description: 'Null here; read it from `/secret`.' })),
})
export type App = Static<typeof App>

const ScaledApp = resource('ScaledApp', {
  ...App.properties,
  message: nullable(text({ description: 'What has to wait for room on the hosts; null: nothing.' })),
})

export const AppSecret = resource('AppSecret', {
  scm_webhook_secret: nullable(text()),
  webhook_url: text({ description: 'Where the git host delivers pushes, signed with the secret.' }),
})
export type AppSecret = Static<typeof AppSecret>

const DryRun = resource(
  'DryRun',
  {
    host_id: nullable(text({ description: 'The host it would choose; null when none fits.' })),
    rejected: list(resource('RejectedHost', { host_id: text(), reason: text() })),
    plan: text({ description: 'Effect on the limits of the plan.' }),
  },
  { description: 'What a deploy would do, and why.' },
)

export const DeployResponse = resource('DeployResponse', {
  deployment_id: text(),
  job_id: text(),
  vm_id: text({ description: 'First VM; empty until one is placed.' }),
  host_id: text({ description: 'Host of the first VM; empty until it is placed.' }),
  image_tag: text(),
  status: text(),
  message: text(),
  dry_run: Type.Optional(DryRun),
})
export type DeployResponse = Static<typeof DeployResponse>

const port = () => uint32({ maximum: 65_535 })
const replicas = () => int32({ minimum: 0, maximum: 1000 })
const percent = () => double({ minimum: 0, maximum: 100 })
const gitUrl = (options = {}) => text({ maxLength: 2048, ...options })

const scaling = {
  autoscaling_enabled: maybe(bool()),
  desired_replicas: maybe(replicas()),
  max_replicas: maybe(replicas()),
  min_replicas: maybe(replicas()),
  cpu_threshold: maybe(percent()),
  mem_threshold: maybe(percent()),
}
const settings = {
  git_branch: maybe(text({ maxLength: 255, description: 'Empty: the default branch of the repository.' })),
  git_submodules: maybe(bool()),
  drain_timeout: maybe(int32({ minimum: 0, maximum: 3600, description: 'Seconds.' })),
  health_check_path: maybe(text({ maxLength: 1024, pattern: '^/', 'x-mote-pattern': 'a "/" at the start' })),
  scm_installation_id: maybe(int64()),
  scm_repo_full_name: maybe(text({ maxLength: 512 })),
  scm_repo_id: maybe(int64()),
}

export const hypervisorNames = ['firecracker', 'cloud-hypervisor', 'qemu', 'fake'] as const
/** The sizes of a manual deploy; absent means the default of the installation. */
const machineSize = {
  disk_mib: maybe(uint32({ description: 'Writable disk of each VM.' })),
  hypervisor: maybe(oneOf(hypervisorNames, { description: 'Absent: the best that the hosts offer.' })),
  memory_mib: maybe(uint32({ enum: [512, 1024, 2048, 4096] })),
  port: maybe(port()),
  vcpus: maybe(uint32({ enum: [1, 2, 3, 4] })),
  dry_run: maybe(bool({ description: 'Explains what would happen, and changes nothing.' })),
}
const image = (options = {}) =>
  text({
    minLength: 1,
    maxLength: 1024,
    description: 'OCI image reference, or `oci:<directory>` on the host.',
    ...options,
  })

const shared = { tag: 'Apps', auth: 'bearer', project: 'selected' } as const
const params = Type.Object({ app_name: text() })

const ofEnv = Type.Object({ app_name: text(), name: text({ maxLength: 128 }) })

export const appOperations = operations({
  listAppEnv: {
    method: 'GET',
    path: '/v1/apps/{app_name}/env',
    summary: 'Names of the environment variables of an app; values are never shown',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['name'] },
    answer: list(resource('AppEnv', { name: text(), updated_at: dateTime() })),
    addition: true,
    items: [
      {
        id: 'getAppEnv',
        path: '/v1/apps/{app_name}/env/{name}',
        by: 'name',
        summary: 'One environment variable; its value is never shown',
      },
    ],
  },
  putAppEnv: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/env/{name}',
    summary: 'Sets an environment variable; takes effect with the next deploy',
    ...shared,
    scope: 'write',
    params: ofEnv,
    body: resource('PutAppEnvRequest', { value: rawText({ maxLength: 32_768 }) }),
    answer: Acknowledgement,
    addition: true,
  },
  deleteAppEnv: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/env/{name}',
    summary: 'Removes an environment variable; takes effect with the next deploy',
    ...shared,
    scope: 'write',
    params: ofEnv,
    answer: Acknowledgement,
    addition: true,
  },
  listApps: {
    method: 'GET',
    path: '/v1/apps',
    summary: 'Apps of the project, newest first',
    ...shared,
    scope: 'read',
    list: { order: ['-id'], filters: ['name', 'scale_state'] },
    answer: list(App),
  },
  createApp: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/apps',
    summary: 'Creates an app; nothing runs before the first deploy',
    ...shared,
    scope: 'write',
    body: resource('CreateAppRequest', {
      name: labelName({ description: 'Part of the host name; unique in the project.' }),
      git_url: gitUrl({ description: 'Where the source is; may be empty for an app deployed from images.' }),
      ...scaling,
      ...settings,
      port: maybe(port()),
    }),
    answer: App,
  },
  getApp: {
    method: 'GET',
    path: '/v1/apps/{app_name}',
    summary: 'One app',
    ...shared,
    scope: 'read',
    params,
    answer: App,
    waits: 'scale_state',
  },
  updateApp: {
    method: 'PATCH',
    path: '/v1/apps/{app_name}',
    summary: 'Changes the port, and what else is sent; takes effect with the next deploy',
    ...shared,
    scope: 'write',
    params,
    body: resource('UpdateAppRequest', { port: port(), git_url: maybe(gitUrl()), ...settings }),
    answer: App,
  },
  deleteApp: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}',
    summary: 'Deletes an app, its deployments and its VMs',
    ...shared,
    scope: 'write',
    params,
    answer: Acknowledgement,
  },
  getAppSecret: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/apps/{app_name}/secret',
    summary: 'The secret that signs webhooks for this app',
    ...shared,
    scope: 'write',
    params,
    answer: AppSecret,
  },
  scaleApp: {
    method: 'PATCH',
    path: '/v1/apps/{app_name}/scale',
    summary: 'Changes replicas and autoscaling; what is absent stays',
    ...shared,
    scope: 'write',
    params,
    body: resource('ScaleAppRequest', scaling),
    changes: '/v1/apps/{app_name}',
    bodyRequired: true,
    fails: [409],
    answer: ScaledApp,
  },
  deploy: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/deploy',
    summary: 'Deploys an image to the named app, which is created if it does not exist',
    ...shared,
    scope: 'deploy',
    body: resource('DeployRequest', {
      app_name: labelName(),
      image: image({ minLength: 0, description: 'OCI image reference; empty: built from the repository of the app.' }),
      git_url: maybe(gitUrl()),
      ...machineSize,
    }),
    answer: DeployResponse,
  },
  deployApp: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/apps/{app_name}/deploy',
    summary: 'Deploys an app: the given image or source, or what its repository has, or what was deployed last',
    ...shared,
    scope: 'deploy',
    params,
    body: resource('DeployAppRequest', {
      image: maybe(image()),
      source: maybe(
        text({ maxLength: 80, description: 'Builds what was sent: the answer of PUT /v1/apps/{app_name}/source.' }),
      ),
      ...machineSize,
    }),
    bodyRequired: true,
    answer: DeployResponse,
  },
})
