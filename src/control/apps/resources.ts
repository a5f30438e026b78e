/** What the operations of apps speak of. */
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
  resource,
  text,
  uint32,
  uuid,
} from '../http/types.ts'
import { AppScaleState } from '../deployments/schema.ts'

export const App = resource(
  'App',
  {
    id: uuid({ description: 'Id of the app.' }),
    name: text({
      description: 'Name of the app; unique in the project, and part of its host name.',
      examples: ['web'],
    }),
    git_url: text({
      description: 'Repository of its source; empty: it is deployed from images or uploads.',
      examples: ['https://github.com/example/web.git'],
    }),
    git_branch: text({
      description: 'The branch that pushes and builds are of; empty: the default one.',
      examples: ['main'],
    }),
    git_submodules: bool({
      description: 'Whether submodules on the same host are fetched for builds.',
      examples: [false],
    }),
    port: uint32({ description: 'Where the program in the VM listens.', examples: [8080] }),
    health_check_path: text({
      description: 'Path that must answer 2xx or 3xx before a deployment serves.',
      examples: ['/health'],
    }),
    drain_timeout: int32({ description: 'Seconds that old VMs may take to finish their requests.', examples: [30] }),
    desired_replicas: int32({ description: 'How many VMs should run; autoscaling changes it.', examples: [1] }),
    min_replicas: int32({ description: 'How many VMs run at least; 0: it may scale to zero.', examples: [0] }),
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
    active_deployment_id: maybe(uuid({ description: 'The deployment that serves; null: none does.' })),
    hostname: maybe(
      text({ description: 'Where the gateway serves it; null: nowhere yet.', examples: ['web-blue.mote.example'] }),
    ),
    scm_installation_id: maybe(
      int64({
        description: 'Installation of the git integration that reads the repository; null: none.',
        examples: [4711],
      }),
    ),
    scm_repo_full_name: maybe(
      text({ description: 'The repository as the git host names it; null: none is bound.', examples: ['example/web'] }),
    ),
    scm_repo_id: maybe(
      int64({ description: 'Id of the repository at the git host; null: none is bound.', examples: [815] }),
    ),
    scm_webhook_secret: maybe(
      text({ description: 'Null here; read it with `GET /v1/apps/{app_name}/secret`.', examples: [null] }),
    ),
  },
  { description: 'What is deployed under one name, and how it scales.' },
)
export type App = Static<typeof App>

export const ScaledApp = resource(
  'ScaledApp',
  {
    ...App.properties,
    message: nullable(
      text({
        description: 'What has to wait for room on the hosts; null: nothing.',
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
  },
  { description: 'An environment variable of an app. Its value is never shown.' },
)

export const AppSecret = resource(
  'AppSecret',
  {
    scm_webhook_secret: nullable(
      text({
        description: 'Key of the signature of webhooks; null: the app has none.',
        examples: ['whsec_4f1c2a9b7d3e5f60'],
      }),
    ),
    webhook_url: text({
      description: 'Where the git host delivers pushes, signed with the secret.',
      examples: ['https://api.mote.example/v1/webhooks/scm/web'],
    }),
  },
  { description: 'What a git host needs to deliver webhooks of an app.' },
)
export type AppSecret = Static<typeof AppSecret>

const RejectedHost = resource(
  'RejectedHost',
  {
    host_id: text({ description: 'The host.', examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'] }),
    reason: text({ description: 'Why it cannot take a VM.', examples: ['cordoned'] }),
  },
  { description: 'A host that does not fit.' },
)

const DryRun = resource(
  'DryRun',
  {
    host_id: nullable(
      text({
        description: 'The host that would be chosen; null: none fits.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    ),
    rejected: list(RejectedHost, { description: 'The hosts that do not fit.' }),
    plan: text({ description: 'Effect on the limits of the plan.', examples: ['within the limits'] }),
  },
  { description: 'What a deploy would do, and why.' },
)

export const DeployResponse = resource(
  'DeployResponse',
  {
    deployment_id: text({
      description: 'The new deployment; empty for a dry run.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    job_id: text({
      description: 'The same deployment, as paths name it; empty for a dry run.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
    vm_id: text({ description: 'Its first VM; empty until one is placed.', examples: [''] }),
    host_id: text({ description: 'The host of its first VM; empty until it is placed.', examples: [''] }),
    image_tag: text({ description: 'Tag of its image; empty until it is built.', examples: ['latest'] }),
    status: text({ description: 'Status of the deployment.', examples: ['pending'] }),
    message: text({ description: 'What happens next, for people.', examples: ['The deployment has begun.'] }),
    dry_run: Type.Optional(DryRun),
  },
  { description: 'A deployment that has begun, or what one would do.' },
)
export type DeployResponse = Static<typeof DeployResponse>
