/** Request bodies of the app operations. */
import {
  bool,
  double,
  int32,
  int64,
  labelName,
  list,
  maybe,
  oneOf,
  rawText,
  resource,
  text,
  uint32,
} from '../http/types.ts'
import { AppBuildRequest } from '../builds/schema.ts'
import { AppHostsRequest } from './host-settings.ts'
import { appKinds } from './resources.ts'
import { AppCanaryRequest, AppRestartRequest, strategy } from './rollout-resources.ts'

const port = () =>
  uint32({
    maximum: 65_535,
    description: 'Port that the program in the VM listens on; it is also passed as `$PORT`.',
    examples: [8080],
  })
const replicas = (description: string, example: number) =>
  int32({ minimum: 0, maximum: 1000, description, examples: [example] })
const percent = (what: string) =>
  double({
    minimum: 0,
    maximum: 100,
    description: `${what} usage in percent, 0 to 100, above which autoscaling adds a VM.`,
    examples: [80],
  })
const gitUrl = (description: string) =>
  text({ maxLength: 2048, description, examples: ['https://github.com/example/web.git'] })

const scaling = {
  autoscaling_enabled: maybe(bool({ description: 'Whether the number of VMs is adjusted to their load.' })),
  desired_replicas: maybe(replicas('Number of VMs that should run.', 1)),
  max_replicas: maybe(replicas('Maximum number of VMs.', 3)),
  min_replicas: maybe(replicas('Minimum number of VMs; 0 allows the app to scale to zero.', 0)),
  cpu_threshold: maybe(percent('CPU')),
  mem_threshold: maybe(percent('Memory')),
}
const command = () =>
  maybe(
    list(rawText({ maxLength: 4096, examples: ['node'] }), {
      maxItems: 64,
      description:
        'Program and arguments that replace the entrypoint and command of the image, run without a shell; an empty list keeps those of the image.',
      examples: [['node', 'server.js']],
    }),
  )
const imageArguments = () =>
  maybe(
    list(rawText({ maxLength: 4096, examples: ['node'] }), {
      maxItems: 64,
      description:
        'Arguments that replace the command of the image but not its entrypoint; an empty list keeps those of the image. Ignored if `command` is set.',
      examples: [['--verbose']],
    }),
  )
const settings = {
  git_branch: maybe(
    text({
      maxLength: 255,
      description: 'Branch to build, whose pushes start deployments; empty: the default branch of the repository.',
      examples: ['main'],
    }),
  ),
  git_submodules: maybe(
    bool({ description: 'Whether builds also fetch Git submodules that are on the same Git host.', examples: [false] }),
  ),
  drain_timeout: maybe(
    int32({
      minimum: 0,
      maximum: 3600,
      description: 'Seconds that the VMs of a replaced version have to finish open requests before they are stopped.',
      examples: [30],
    }),
  ),
  canary: maybe(AppCanaryRequest),
  strategy: maybe(strategy),
  hosts: maybe(AppHostsRequest),
  restart: maybe(AppRestartRequest),
  build: maybe(AppBuildRequest),
  health_check_path: maybe(
    text({
      maxLength: 1024,
      pattern: '^/',
      'x-mote-pattern': 'a "/" at the start',
      description:
        'Path of the health check: a VM gets requests once a `GET` of this path returns a 2xx or 3xx status.',
      examples: ['/health'],
    }),
  ),
  release_command: maybe(
    list(rawText({ minLength: 1, maxLength: 8192, examples: ['python'] }), {
      maxItems: 256,
      description:
        'Program and arguments that run once, without a shell, in a separate VM before a new version gets requests. If the program fails, the deployment fails and the old version keeps serving. An empty list removes the setting.',
      examples: [['python', 'manage.py', 'migrate']],
    }),
  ),
  scm_installation_id: maybe(
    int64({
      description:
        'Id of the GitHub App installation through which the repository is read, from `GET /v1/scm/installations`.',
      examples: [4711],
    }),
  ),
  scm_repo_full_name: maybe(
    text({ maxLength: 512, description: 'Full name of the repository at the Git host.', examples: ['example/web'] }),
  ),
  scm_repo_id: maybe(int64({ description: 'Id of the repository at the Git host.', examples: [815] })),
}

const hypervisorNames = ['firecracker', 'cloud-hypervisor', 'gvisor', 'qemu', 'vm', 'fake'] as const
/** VM size and other options of a manual deployment. Absent fields get the installation's defaults. */
const vmSize = {
  disk_mib: maybe(
    uint32({
      description: 'Writable disk of each VM in MiB. Default: set by the operator.',
      examples: [1024],
    }),
  ),
  hypervisor: maybe(
    oneOf(hypervisorNames, {
      description:
        'Hypervisor of the VMs. `vm`: any hypervisor that gives each guest its own kernel, so never `gvisor`. Default: the fastest one that a host offers.',
    }),
  ),
  memory_mib: maybe(
    uint32({
      enum: [512, 1024, 2048, 4096],
      description: 'Memory of each VM in MiB. Default: set by the operator.',
      examples: [512],
    }),
  ),
  port: maybe(port()),
  vcpus: maybe(
    uint32({
      enum: [1, 2, 3, 4],
      description: 'Virtual CPUs of each VM. Default: set by the operator.',
      examples: [1],
    }),
  ),
  dry_run: maybe(
    bool({
      description: 'Whether to only report what the deployment would do, without changing anything. Default: false.',
      examples: [false],
    }),
  ),
}
const imageExample = 'ghcr.io/example/web:latest'

export const PutAppEnvRequest = resource('PutAppEnvRequest', {
  value: rawText({
    maxLength: 32_768,
    description: 'Value of the variable. It is stored encrypted.',
    examples: ['postgresql://mote@db:5432/app'],
  }),
  secret: maybe(
    bool({
      description:
        'Whether the value is never shown again. With `false`, members of the project can read it. Default: true.',
      examples: [true],
    }),
  ),
})

export const CreateAppRequest = resource('CreateAppRequest', {
  name: labelName({ description: "Name of the app: unique in the project, and part of the app's host name." }),
  git_url: gitUrl('URL of the Git repository to build; may be empty if the app is deployed from images or uploads.'),
  ...scaling,
  ...settings,
  port: maybe(port()),
  command: command(),
  arguments: imageArguments(),
  stack: maybe(
    labelName({
      description: 'Name of the stack that the app belongs to, set by `mote compose`. It cannot be changed later.',
      examples: ['shop'],
    }),
  ),
  env_of: maybe(
    text({
      maxLength: 40,
      description:
        'For a worker: name of the web app whose variables, environment groups and files it uses. The worker is deleted together with that app.',
      examples: ['web'],
    }),
  ),
  kind: maybe(
    oneOf(appKinds, {
      description:
        'Kind of the app: `worker` for a program that gets no requests. It cannot be changed later. Default: `web`.',
    }),
  ),
})

export const UpdateAppRequest = resource('UpdateAppRequest', {
  port: port(),
  git_url: maybe(gitUrl('URL of the Git repository to build; empty if there is none.')),
  ...settings,
  command: command(),
  arguments: imageArguments(),
})

export const ScaleAppRequest = resource('ScaleAppRequest', scaling)

export const DeployRequest = resource('DeployRequest', {
  app_name: labelName({ description: 'Name of the app, which is created if it does not exist.' }),
  image: text({
    maxLength: 1024,
    description: 'OCI image reference; if empty, the image is built from the repository of the app.',
    examples: [imageExample],
  }),
  git_url: maybe(
    gitUrl('URL of the Git repository to build, which becomes the `git_url` of the app. Default: that of the app.'),
  ),
  ...vmSize,
})

export const DeployAppRequest = resource('DeployAppRequest', {
  image: maybe(
    text({
      minLength: 1,
      maxLength: 1024,
      description:
        'OCI image reference, or `oci:<directory>` for a directory on the host. Default: an image built from the source.',
      examples: [imageExample],
    }),
  ),
  source: maybe(
    text({
      maxLength: 80,
      description:
        'Uploaded source to build: the `source` that `PUT /v1/apps/{app_name}/source` returned. Not allowed together with `image`.',
      examples: [null],
    }),
  ),
  ...vmSize,
})
