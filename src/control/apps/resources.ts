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

/** Kinds of apps: `worker` for programs that get no requests. */
export const appKinds = ['web', 'worker'] as const

export const App = resource(
  'App',
  {
    id: uuid({ description: 'Id of the app.' }),
    name: text({
      description: 'Name of the app; unique in the project, and part of its host name.',
      examples: ['web'],
    }),
    git_url: text({
      description: 'Repository of the source; empty when the app is deployed from images or uploads.',
      examples: ['https://github.com/example/web.git'],
    }),
    git_branch: text({
      description: 'Branch for pushes and builds; empty for the default branch.',
      examples: ['main'],
    }),
    git_submodules: bool({
      description: 'Whether submodules on the same host are fetched for builds.',
      examples: [false],
    }),
    port: uint32({ description: 'Port that the program in the VM listens on.', examples: [8080] }),
    kind: oneOf(appKinds, {
      description:
        '`worker`: gets no requests, so it has no host name, is healthy once its program has run for two seconds, and never sleeps.',
    }),
    env_of: nullable(
      text({
        description: 'App whose environment its deployments get; null for its own.',
        examples: [null],
      }),
    ),
    command: list(rawText({ examples: ['node'] }), {
      description: 'Program and arguments that replace those of the image; empty: those of the image.',
      examples: [['node', 'worker.js']],
    }),
    arguments: list(rawText({ examples: ['--verbose'] }), {
      description: 'Arguments that replace those of the image, whose entrypoint stays; empty: those of the image.',
      examples: [[]],
    }),
    stack: nullable(
      text({
        description: 'Stack of the app, as `mote compose` names it; null for an app outside of stacks.',
        examples: [null],
      }),
    ),
    health_check_path: text({
      description: 'Path that must answer 2xx or 3xx before a deployment serves.',
      examples: ['/health'],
    }),
    release_command: nullable(
      list(rawText({ examples: ['python'] }), {
        description: 'Runs once in a separate VM before a new version serves; null: nothing.',
        examples: [['python', 'manage.py', 'migrate']],
      }),
    ),
    drain_timeout: int32({ description: 'Seconds that old VMs may take to finish their requests.', examples: [30] }),
    canary: nullable(AppCanary),
    strategy,
    hosts: AppHosts,
    restart: AppRestart,
    build: AppBuild,
    desired_replicas: int32({ description: 'How many VMs should run; autoscaling changes it.', examples: [1] }),
    min_replicas: int32({ description: 'How many VMs run at least; 0 allows scale to zero.', examples: [0] }),
    max_replicas: int32({ description: 'How many VMs run at most.', examples: [3] }),
    autoscaling_enabled: bool({ description: 'Whether the number of VMs follows their load.', examples: [true] }),
    cpu_threshold: double({
      description: 'Percent of CPU, 0 to 100, above which a VM is added.',
      examples: [80],
    }),
    mem_threshold: double({
      description: 'Percent of memory, 0 to 100, above which a VM is added.',
      examples: [80],
    }),
    scale_state: AppScaleState,
    created_at: dateTime({ description: 'When it was created.' }),
    settings_changed_at: nullable(
      dateTime({
        description:
          'When a setting that takes effect with the next deployment was last changed; null if never since the app was created.',
        examples: [null],
      }),
    ),
    active_deployment_id: maybe(uuid({ description: 'The active deployment; null if none.' })),
    failure: nullable(
      text({
        description:
          'Why its newest deployment failed, at most 1000 characters; null if that did not fail, or if a deployment is active.',
        examples: [null],
      }),
    ),
    hostname: maybe(
      text({
        description: 'Host name that the gateway serves the app on; null for a worker.',
        examples: ['web-blue.mote.example'],
      }),
    ),
    url: maybe(
      text({
        description: 'Address of the app, with the scheme and port of the gateway; null for a worker.',
        examples: ['https://web-blue.mote.example'],
      }),
    ),
    scm_installation_id: maybe(
      int64({
        description: 'Installation of the git integration that reads the repository; null if none.',
        examples: [4711],
      }),
    ),
    scm_repo_full_name: maybe(
      text({
        description: 'The repository as the git host names it; null if none is connected.',
        examples: ['example/web'],
      }),
    ),
    scm_repo_id: maybe(
      int64({ description: 'Id of the repository at the git host; null if none is connected.', examples: [815] }),
    ),
    scm_webhook_secret: maybe(
      text({ description: 'Always null; read it with `GET /v1/apps/{app_name}/secret`.', examples: [null] }),
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
        description: 'Replicas that wait for room on the hosts; null if none do.',
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
    updated_at: dateTime({ description: 'When its value was last set.' }),
    secret: bool({ description: 'Whether its value is never shown.', examples: [true] }),
    value: nullable(rawText({ description: 'Its value; null for a secret.', examples: [null] })),
  },
  { description: 'An environment variable of an app. The value of a secret is never shown.' },
)

export const AppSecret = resource(
  'AppSecret',
  {
    scm_webhook_secret: nullable(
      text({
        description: 'Key that signs webhooks; null if the app has none.',
        examples: ['whsec_4f1c2a9b7d3e5f60'],
      }),
    ),
    webhook_url: text({
      description: 'URL to which the git host delivers pushes, signed with the secret.',
      examples: ['https://api.mote.example/v1/webhooks/scm/web'],
    }),
  },
  { description: 'Settings for a git host to deliver webhooks of an app.' },
)
export type AppSecret = Static<typeof AppSecret>

const RejectedHost = resource(
  'RejectedHost',
  {
    host_id: text({ description: 'Id of the host.', examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'] }),
    reason: text({ description: 'Why it cannot take a VM.', examples: ['cordoned'] }),
  },
  { description: 'A host that cannot take the VM.' },
)

const DryRun = resource(
  'DryRun',
  {
    host_id: nullable(
      text({
        description: 'The host that would be chosen; null if none fits.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    ),
    rejected: list(RejectedHost, { description: 'The hosts that do not fit, with reasons.' }),
    plan: text({ description: 'Effect on the limits of the plan.', examples: ['within the limits'] }),
  },
  { description: 'Effects of a deployment, without deploying.' },
)

export const DeployResponse = resource(
  'DeployResponse',
  {
    deployment_id: text({
      description: 'Id of the new deployment; empty for a dry run.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    job_id: text({
      description: 'Short id of the deployment, used in paths; empty for a dry run.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
    vm_id: text({ description: 'Its first VM; empty until one is placed.', examples: [''] }),
    host_id: text({ description: 'The host of its first VM; empty until it is placed.', examples: [''] }),
    image_tag: text({ description: 'Tag of the image; empty until it is built.', examples: ['latest'] }),
    status: text({ description: 'Status of the deployment.', examples: ['pending'] }),
    message: text({ description: 'What happens next, as text for users.', examples: ['Accepted. The VM starts now.'] }),
    dry_run: Type.Optional(DryRun),
  },
  { description: 'A deployment that was started, or the plan of a dry run.' },
)
export type DeployResponse = Static<typeof DeployResponse>
