/** Resources of the deployment operations. */
import type { Static } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import { dateTime, double, int64, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

const appScaleStates = ['active', 'idle', 'scaled_to_zero', 'warming_up'] as const
export const AppScaleState = oneOf(appScaleStates, {
  title: 'AppScaleState',
  description:
    '`active`: VMs serve; `idle`: about to scale to zero; `scaled_to_zero`: the next request wakes the app; `warming_up`: VMs start.',
})
export type AppScaleState = Static<typeof AppScaleState>

const status = () =>
  text({
    description: `Current status of the deployment: ${deploymentStatuses.map(name => `\`${name}\``).join(', ')}.`,
    examples: ['running'],
  })
const jobId = () =>
  text({ description: 'Short id of the deployment, used in paths.', examples: ['job-3f6d0c4f2a1097e0'] })
const address = () =>
  text({
    description: 'IPv6 address of its first VM; empty until it has one.',
    examples: ['fd4d:6f74:6500:1::a'],
  })
const memoryMib = () => int64({ description: 'Memory of each VM in MiB.', examples: [512] })
const vcpus = () => int64({ description: 'Virtual CPUs of each VM.', examples: [1] })

export const Deployment = resource(
  'Deployment',
  {
    id: uuid({ description: 'Id of the deployment.' }),
    app_id: uuid({ description: 'The app that the deployment belongs to.' }),
    tenant_id: uuid({ description: 'The project that owns the deployment.' }),
    job_id: jobId(),
    build_id: text({
      description: 'The build that made the image; empty if nothing was built.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    image: text({
      description: 'Image of the deployment; empty until it is built.',
      examples: ['ghcr.io/example/web:latest'],
    }),
    image_tag: text({ description: 'Tag of the image.', examples: ['latest'] }),
    status: status(),
    created_at: dateTime({ description: 'When the deployment was requested.' }),
    updated_at: dateTime({ description: 'When it last changed.' }),
    disk_mib: int64({ description: 'Writable disk of each VM in MiB.', examples: [1024] }),
    memory_mib: memoryMib(),
    vcpus: vcpus(),
    port: int64({ description: 'Port that the program in the VM listens on.', examples: [8080] }),
    hypervisor: int64({
      description: '0: chosen by the scheduler, 1: firecracker, 2: cloud-hypervisor, 3: qemu, 9: fake.',
      examples: [1],
    }),
    ipv6_address: address(),
    git_branch: text({ description: 'The branch that was built; empty: none.', examples: ['main'] }),
    git_commit_hash: text({
      description: 'The commit that was built; empty: none, or not fetched yet.',
      examples: ['4f1c2a9b7d3e5f60718293a4b5c6d7e8f9012345'],
    }),
    git_commit_message: text({ description: 'First line of the commit message.', examples: ['Answer on /health'] }),
    trigger_source: text({
      description: '`manual`, `api`, `push` or `rollback`. Autoscaling changes replicas without a deployment.',
      examples: ['push'],
    }),
    author: text({
      description:
        'Who requested it, or activated it last: the name or e-mail address of the account, or the author of the push; empty if unknown.',
      examples: ['Ada Lovelace'],
    }),
    started_at: nullable(dateTime({ description: 'When it first passed its health check; null if it has not.' })),
    duration_ms: nullable(
      int64({
        description:
          'Milliseconds from the request until it served, or until it ended without serving; null while neither has happened.',
        examples: [8200],
      }),
    ),
    requests: int64({
      description:
        'Requests that gateways sent to its VMs since it first served, reported every 10 seconds; a request that is sent again to another VM counts at both. WebSockets count once, TCP services not.',
      examples: [1240],
    }),
    failed_requests: int64({
      description: 'Those that were answered with 5xx or had no complete answer.',
      examples: [2],
    }),
  },
  { description: 'One rollout of an app: an image and the size of its VMs, as requested.' },
)
export type Deployment = Static<typeof Deployment>

const FieldChange = resource(
  'DeploymentFieldChange',
  {
    field: text({ description: 'Field that differs.', examples: ['image'] }),
    from: nullable(text({ description: 'Value of the base; null if it is unset.', examples: ['nginx:1.26'] })),
    to: nullable(text({ description: 'Value of the deployment; null if it is unset.', examples: ['nginx:1.27'] })),
  },
  { description: 'A field that differs between two deployments. Commands are JSON arrays.' },
)
const envNames = (what: string) =>
  list(text({ examples: ['LOG_LEVEL'] }), { description: `Names of variables that ${what}.` })
const filePaths = (what: string) =>
  list(text({ examples: ['/etc/web/web.conf'] }), { description: `Paths of files that ${what}.` })

export const DeploymentDiff = resource(
  'DeploymentDiff',
  {
    job_id: jobId(),
    base: nullable(
      text({
        description: 'Job id of the deployment that it is compared with; null for the first one of the app.',
        examples: ['job-77aa01e2c1d04f5b'],
      }),
    ),
    fields: list(FieldChange, { description: 'Image, commit, size and settings that differ.' }),
    env_added: envNames('only the deployment has'),
    env_removed: envNames('only the base has'),
    env_changed: envNames('have another value'),
    files_added: filePaths('only the deployment has'),
    files_removed: filePaths('only the base has'),
    files_changed: filePaths('have another content, mode or variable'),
  },
  {
    description:
      'What differs between two deployments of an app. Values of variables and contents of files are never shown.',
  },
)
export type DeploymentDiff = Static<typeof DeploymentDiff>

export const DeploymentAction = resource(
  'DeploymentAction',
  {
    job_id: jobId(),
    deployment_id: uuid({ description: 'UUID of the deployment.' }),
    status: status(),
  },
  { description: 'Status of a deployment after an action. Wait for the final status with `?wait=` of the deployment.' },
)

const live = {
  app_id: text({
    description: 'The app that the deployment belongs to.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  app_name: text({ description: 'Name of the app.', examples: ['web'] }),
  deployment_id: text({ description: 'Id of the deployment.', examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'] }),
  job_id: jobId(),
  vm_id: text({
    description: 'Its first VM; empty until one is placed.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  host_id: text({
    description: 'The host of its first VM; empty until it is placed.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  hypervisor: text({
    description: 'Hypervisor of its first VM; empty while the scheduler has not chosen one.',
    examples: ['firecracker'],
  }),
  image: text({ description: 'Image of the deployment.', examples: ['ghcr.io/example/web:latest'] }),
  ipv6_address: address(),
  status: status(),
  scale_state: AppScaleState,
  cpu_usage: double({
    description: 'Mean CPU usage of its VMs in percent of their vCPUs, 0 to 100.',
    examples: [12.5],
  }),
  memory_mib: memoryMib(),
  ram_used_bytes: int64({ description: 'Total memory that its VMs use.', examples: [134_217_728] }),
  rx_bytes: int64({ description: 'Bytes that its VMs have received since they started.', examples: [1_048_576] }),
  tx_bytes: int64({ description: 'Bytes that its VMs have sent since they started.', examples: [5_242_880] }),
  vcpus: vcpus(),
}
const instant = (what: string, example: number) =>
  int64({ description: `${what}, in seconds since 1970; 0 if that has not happened.`, examples: [example] })

export const LiveDeployment = resource('LiveDeployment', live, {
  description: 'A live deployment, with its numbers as hosts last reported them.',
})
export type LiveDeployment = Static<typeof LiveDeployment>

const DeploymentStep = resource(
  'DeploymentStep',
  {
    name: text({
      description: 'One of `image`, `base`, `disk`, `spawn`, `boot` and `healthy`.',
      examples: ['boot'],
    }),
    ms: double({ description: 'Duration in milliseconds.', examples: [182.4] }),
  },
  { description: 'One step of a start.' },
)

const DeploymentCanary = resource(
  'DeploymentCanary',
  {
    state: oneOf(['running', 'passed', 'failed', 'cancelled'], {
      description: '`cancelled`: it was stopped, or a later deployment took its place.',
    }),
    percent: double({ description: 'Percentage of the requests that it gets.', examples: [10] }),
    requests: int64({ description: 'Requests that it got, a few seconds behind.', examples: [90] }),
    failed: int64({ description: 'Those that ended with 5xx or without an answer.', examples: [12] }),
    max_error_percent: double({ description: 'It fails above this percentage.', examples: [5] }),
    started_at: dateTime({ description: 'When it began to get requests.' }),
    ends_at: dateTime({ description: 'When it gets all requests, unless it fails before; or when the canary ended.' }),
  },
  { description: 'A new version that gets a share of the requests before it gets all.' },
)

export const LiveDeploymentStatus = resource(
  'LiveDeploymentStatus',
  {
    ...live,
    error_message: text({
      description: 'Why the deployment failed, or what it waits for; empty if neither.',
      examples: [''],
    }),
    scheduled_at: instant('When it was placed on a host', 1_773_480_413),
    started_at: instant('When it first passed its health check', 1_773_480_414),
    stopped_at: instant('When its last VM stopped', 0),
    canary: nullable(DeploymentCanary),
    steps: list(DeploymentStep, { description: 'Duration of each step of the start of its first VM.' }),
  },
  { description: 'The current state of a deployment.' },
)
export type LiveDeploymentStatus = Static<typeof LiveDeploymentStatus>
