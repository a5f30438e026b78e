/** Request and response schemas of the app operations. */
import { type Static, Type } from 'typebox'
import {
  bool,
  dateTime,
  double,
  int32,
  int64,
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
import { AppBuild } from '../builds/schema.ts'
import { AppHosts } from './host-settings.ts'
import { AppCanary, AppRestart, strategy } from './rollout-resources.ts'
import { AppScaleState } from '../deployments/schema.ts'

/** Kinds of apps: `web` for apps that serve requests, `worker` for programs that get no requests. */
export const appKinds = ['web', 'worker'] as const

export const App = resource(
  'App',
  {
    id: uuid({ description: 'Id of the app.' }),
    name: text({
      description: "Name of the app: unique in the project, and part of the app's host name.",
      examples: ['web'],
    }),
    git_url: text({
      description: 'URL of the Git repository that is built; empty if the app is deployed from images or uploads.',
      examples: ['https://github.com/example/web.git'],
    }),
    git_branch: text({
      description:
        'Branch that is built, and whose pushes start deployments; empty: the default branch of the repository.',
      examples: ['main'],
    }),
    git_submodules: bool({
      description: 'Whether builds also fetch Git submodules that are on the same Git host.',
      examples: [false],
    }),
    port: uint32({ description: 'Port that the program in the VM listens on.', examples: [8080] }),
    kind: oneOf(appKinds, {
      description:
        '`web`: serves HTTP requests. `worker`: gets no requests; a worker has no host name, counts as healthy once its program has run for two seconds, and never scales to zero.',
    }),
    env_of: nullable(
      text({
        description:
          'Name of the app whose variables, environment groups and files this worker uses; null if the app has its own.',
        examples: [null],
      }),
    ),
    command: list(rawText({ examples: ['node'] }), {
      description:
        'Program and arguments that replace the entrypoint and command of the image; an empty list keeps those of the image.',
      examples: [['node', 'worker.js']],
    }),
    arguments: list(rawText({ examples: ['--verbose'] }), {
      description:
        'Arguments that replace the command of the image but not its entrypoint; an empty list keeps those of the image.',
      examples: [[]],
    }),
    stack: nullable(
      text({
        description: 'Name of the stack to which `mote compose` added the app; null if the app belongs to no stack.',
        examples: [null],
      }),
    ),
    health_check_path: text({
      description:
        'Path of the health check: a VM gets requests once a `GET` of this path returns a 2xx or 3xx status.',
      examples: ['/health'],
    }),
    release_command: nullable(
      list(rawText({ examples: ['python'] }), {
        description:
          'Program and arguments that run once in a separate VM before a new version gets requests, for example for migrations; null if there is none.',
        examples: [['python', 'manage.py', 'migrate']],
      }),
    ),
    drain_timeout: int32({
      description: 'Seconds that the VMs of a replaced version have to finish open requests before they are stopped.',
      examples: [30],
    }),
    canary: nullable(AppCanary),
    strategy,
    hosts: AppHosts,
    restart: AppRestart,
    build: AppBuild,
    desired_replicas: int32({ description: 'Number of VMs that should run; changed by autoscaling.', examples: [1] }),
    min_replicas: int32({ description: 'Minimum number of VMs; 0 allows the app to scale to zero.', examples: [0] }),
    max_replicas: int32({ description: 'Maximum number of VMs.', examples: [3] }),
    autoscaling_enabled: bool({
      description: 'Whether the number of VMs is adjusted to their load.',
      examples: [true],
    }),
    cpu_threshold: double({
      description: 'CPU usage in percent, 0 to 100, above which autoscaling adds a VM.',
      examples: [80],
    }),
    mem_threshold: double({
      description: 'Memory usage in percent, 0 to 100, above which autoscaling adds a VM.',
      examples: [80],
    }),
    scale_state: AppScaleState,
    created_at: dateTime({ description: 'When the app was created.' }),
    settings_changed_at: nullable(
      dateTime({
        description:
          'When a setting was last changed that takes effect with the next deployment; null if none was changed since the app was created.',
        examples: [null],
      }),
    ),
    active_deployment_id: maybe(
      uuid({ description: 'Id of the deployment that serves the app; null if there is none.' }),
    ),
    failure: nullable(
      text({
        description:
          'Why the newest deployment of the app failed, at most 1000 characters; null if it did not fail, or if another deployment is active.',
        examples: [null],
      }),
    ),
    hostname: maybe(
      text({
        description: 'Host name under which the gateway serves the app; null for a worker.',
        examples: ['web-blue.mote.example'],
      }),
    ),
    url: maybe(
      text({
        description: 'URL of the app, with the scheme and port of the gateway; null for a worker.',
        examples: ['https://web-blue.mote.example'],
      }),
    ),
    scm_installation_id: maybe(
      int64({
        description:
          'Id of the GitHub App installation through which the repository is read; null if none is connected.',
        examples: [4711],
      }),
    ),
    scm_repo_full_name: maybe(
      text({
        description: 'Full name of the connected repository at the Git host; null if none is connected.',
        examples: ['example/web'],
      }),
    ),
    scm_repo_id: maybe(
      int64({
        description: 'Id of the connected repository at the Git host; null if none is connected.',
        examples: [815],
      }),
    ),
    scm_webhook_secret: maybe(
      text({
        description: 'Always null. Read the webhook secret with `GET /v1/apps/{app_name}/secret`.',
        examples: [null],
      }),
    ),
  },
  { description: 'An app with its deployment and scaling settings.' },
)
export type App = Static<typeof App>

export const ScaledApp = resource(
  'ScaledApp',
  {
    ...App.properties,
    message: nullable(
      text({
        description: 'How many replicas wait for capacity on a host, as text for users; null if none do.',
        examples: [null, 'Two of the replicas wait for room on a host.'],
      }),
    ),
  },
  { description: 'An app with its new scale.' },
)

export const AppEnv = resource(
  'AppEnv',
  {
    name: text({ description: 'Name of the variable.', examples: ['DATABASE_URL'] }),
    updated_at: dateTime({ description: 'When the value was last set.' }),
    secret: bool({ description: 'Whether the variable is a secret, whose value is never shown.', examples: [true] }),
    value: nullable(rawText({ description: 'Value of the variable; null for a secret.', examples: [null] })),
  },
  { description: 'An environment variable of an app. The value of a secret is never shown.' },
)

export const AppSecret = resource(
  'AppSecret',
  {
    scm_webhook_secret: nullable(
      text({
        description: 'Secret with which the Git host signs webhooks; null if the app has none.',
        examples: ['whsec_4f1c2a9b7d3e5f60'],
      }),
    ),
    webhook_url: text({
      description: 'URL to which the Git host delivers push events, signed with the secret.',
      examples: ['https://api.mote.example/v1/webhooks/scm/web'],
    }),
  },
  { description: 'Webhook settings to enter at the Git host of an app.' },
)
export type AppSecret = Static<typeof AppSecret>

const RejectedHost = resource(
  'RejectedHost',
  {
    host_id: text({ description: 'Id of the host.', examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'] }),
    reason: text({ description: 'Why the host cannot run the VM.', examples: ['cordoned'] }),
  },
  { description: 'A host that cannot run the VM.' },
)

const DryRun = resource(
  'DryRun',
  {
    host_id: nullable(
      text({
        description: 'Id of the host that would run the VM; null if no host can.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    ),
    rejected: list(RejectedHost, { description: 'Hosts that cannot run the VM, with reasons.' }),
    plan: text({
      description: "Effect of the deployment on the plan's limits, as text for users.",
      examples: ['within the limits'],
    }),
  },
  { description: 'What a deployment would do. Nothing is changed.' },
)

export const DeployResponse = resource(
  'DeployResponse',
  {
    deployment_id: text({
      description: 'UUID of the new deployment; empty for a dry run.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    job_id: text({
      description: 'Short id of the deployment, used in paths; empty for a dry run.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
    vm_id: text({
      description: "Id of the deployment's first VM; empty until a VM is placed on a host.",
      examples: [''],
    }),
    host_id: text({
      description: 'Id of the host that runs the first VM; empty until that VM is placed.',
      examples: [''],
    }),
    image_tag: text({ description: 'Tag of the image; empty until the image is built.', examples: ['latest'] }),
    status: text({ description: 'Status of the deployment.', examples: ['pending'] }),
    message: text({ description: 'What happens next, as text for users.', examples: ['Accepted. The VM starts now.'] }),
    dry_run: Type.Optional(DryRun),
  },
  { description: 'A deployment that was started, or the plan of a dry run.' },
)
export type DeployResponse = Static<typeof DeployResponse>
