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
    description: `Percent of ${what} above which autoscaling adds a VM.`,
    examples: [80],
  })
const gitUrl = (description: string) =>
  text({ maxLength: 2048, description, examples: ['https://github.com/example/web.git'] })

const scaling = {
  autoscaling_enabled: maybe(bool({ description: 'Whether the number of VMs follows their load.' })),
  desired_replicas: maybe(replicas('How many VMs should run.', 1)),
  max_replicas: maybe(replicas('How many VMs run at most.', 3)),
  min_replicas: maybe(replicas('How many VMs run at least; 0 allows scale to zero.', 0)),
  cpu_threshold: maybe(percent('CPU')),
  mem_threshold: maybe(percent('memory')),
}
const command = () =>
  maybe(
    list(rawText({ maxLength: 4096, examples: ['node'] }), {
      maxItems: 64,
      description:
        'Program and arguments that replace those of the image; empty: those of the image. No shell is involved.',
      examples: [['node', 'server.js']],
    }),
  )
const imageArguments = () =>
  maybe(
    list(rawText({ maxLength: 4096, examples: ['node'] }), {
      maxItems: 64,
      description:
        'Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. Ignored with `command`.',
      examples: [['--verbose']],
    }),
  )
const settings = {
  git_branch: maybe(
    text({
      maxLength: 255,
      description: 'Branch for pushes and builds; empty for the default branch of the repository.',
      examples: ['main'],
    }),
  ),
  git_submodules: maybe(
    bool({ description: 'Whether submodules on the same host are fetched for builds.', examples: [false] }),
  ),
  drain_timeout: maybe(
    int32({
      minimum: 0,
      maximum: 3600,
      description: 'Seconds that old VMs may take to finish their requests.',
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
      description: 'Path that must answer 2xx or 3xx before a deployment serves.',
      examples: ['/health'],
    }),
  ),
  release_command: maybe(
    list(rawText({ minLength: 1, maxLength: 8192, examples: ['python'] }), {
      maxItems: 256,
      description:
        'Program with arguments, without a shell, that runs once in a separate VM with a new image before it serves. If it fails, the old version keeps serving. An empty list removes it.',
      examples: [['python', 'manage.py', 'migrate']],
    }),
  ),
  scm_installation_id: maybe(
    int64({
      description: 'Installation of the git integration that reads the repository, from `GET /v1/scm/installations`.',
      examples: [4711],
    }),
  ),
  scm_repo_full_name: maybe(
    text({ maxLength: 512, description: 'The repository as the git host names it.', examples: ['example/web'] }),
  ),
  scm_repo_id: maybe(int64({ description: 'Id of the repository at the git host.', examples: [815] })),
}

const hypervisorNames = ['firecracker', 'cloud-hypervisor', 'gvisor', 'qemu', 'vm', 'fake'] as const
/** VM size and other options of a manual deployment; absent fields get the installation's defaults. */
const vmSize = {
  disk_mib: maybe(
    uint32({
      description: 'MiB of writable disk of each VM. Default: that of the installation.',
      examples: [1024],
    }),
  ),
  hypervisor: maybe(
    oneOf(hypervisorNames, {
      description:
        'Default: the fastest one that the hosts offer. `vm`: any with a virtual machine and a kernel for each guest, never `gvisor`.',
    }),
  ),
  memory_mib: maybe(
    uint32({
      enum: [512, 1024, 2048, 4096],
      description: 'MiB of memory of each VM. Default: that of the installation.',
      examples: [512],
    }),
  ),
  port: maybe(port()),
  vcpus: maybe(
    uint32({
      enum: [1, 2, 3, 4],
      description: 'Virtual CPUs of each VM. Default: that of the installation.',
      examples: [1],
    }),
  ),
  dry_run: maybe(bool({ description: 'Explains what would happen, and changes nothing.', examples: [false] })),
}
const imageExample = 'ghcr.io/example/web:latest'

export const PutAppEnvRequest = resource('PutAppEnvRequest', {
  value: rawText({
    maxLength: 32_768,
    description: 'The value. It is stored encrypted.',
    examples: ['postgresql://mote@db:5432/app'],
  }),
  secret: maybe(
    bool({
      description:
        'Whether the value is never shown again. `false`: members of the project can read it. Default: true.',
      examples: [true],
    }),
  ),
})

export const CreateAppRequest = resource('CreateAppRequest', {
  name: labelName({ description: 'Part of the host name; unique in the project.' }),
  git_url: gitUrl('Repository of the source; may be empty for an app that is deployed from images or uploads.'),
  ...scaling,
  ...settings,
  port: maybe(port()),
  command: command(),
  arguments: imageArguments(),
  stack: maybe(
    labelName({
      description: 'Stack of the app, as `mote compose` names it. It cannot be changed later.',
      examples: ['shop'],
    }),
  ),
  env_of: maybe(
    text({
      maxLength: 40,
      description: 'App of the project whose environment the deployments of a worker get. It is deleted with that app.',
      examples: ['web'],
    }),
  ),
  kind: maybe(
    oneOf(appKinds, {
      description: '`worker` for a program that gets no requests. It cannot be changed later. Default: `web`.',
    }),
  ),
})

export const UpdateAppRequest = resource('UpdateAppRequest', {
  port: port(),
  git_url: maybe(gitUrl('Repository of the source; empty for none.')),
  ...settings,
  command: command(),
  arguments: imageArguments(),
})

export const ScaleAppRequest = resource('ScaleAppRequest', scaling)

export const DeployRequest = resource('DeployRequest', {
  app_name: labelName({ description: 'The app; it is created if it does not exist.' }),
  image: text({
    maxLength: 1024,
    description: 'OCI image reference; empty: built from the repository of the app.',
    examples: [imageExample],
  }),
  git_url: maybe(gitUrl('Repository of the source, for an app that is created or whose image is empty.')),
  ...vmSize,
})

export const DeployAppRequest = resource('DeployAppRequest', {
  image: maybe(
    text({
      minLength: 1,
      maxLength: 1024,
      description: 'OCI image reference, or `oci:<directory>` on the host. Default: built from the source.',
      examples: [imageExample],
    }),
  ),
  source: maybe(
    text({
      maxLength: 80,
      description: 'Builds an uploaded source: the answer of `PUT /v1/apps/{app_name}/source`. Not with `image`.',
      examples: [null],
    }),
  ),
  ...vmSize,
})
