/** Schemas of the request and response bodies of the deployment operations. */
import type { Static } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import { dateTime, double, int64, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

const appScaleStates = ['active', 'idle', 'scaled_to_zero', 'warming_up'] as const
export const AppScaleState = oneOf(appScaleStates, {
  title: 'AppScaleState',
  description:
    'Scale state of the app. `active`: VMs serve requests. `idle`: the app is about to scale to zero. `scaled_to_zero`: no VM runs; the next request starts one. `warming_up`: VMs are starting.',
})
export type AppScaleState = Static<typeof AppScaleState>

const status = () =>
  text({
    description: `Current status of the deployment: ${deploymentStatuses.map(name => `\`${name}\``).join(', ')}.`,
    examples: ['running'],
  })
const jobId = () =>
  text({ description: 'Short id of the deployment, as used in paths.', examples: ['job-3f6d0c4f2a1097e0'] })
const address = () =>
  text({
    description: "IPv6 address of the deployment's first VM; empty until the VM has one.",
    examples: ['fd4d:6f74:6500:1::a'],
  })
const memoryMib = () => int64({ description: 'Memory of each VM in MiB.', examples: [512] })
const vcpus = () => int64({ description: 'Virtual CPUs of each VM.', examples: [1] })

export const Deployment = resource(
  'Deployment',
  {
    id: uuid({ description: 'Id of the deployment.' }),
    app_id: uuid({ description: 'Id of the app that the deployment belongs to.' }),
    tenant_id: uuid({ description: 'Id of the project that owns the deployment.' }),
    job_id: jobId(),
    build_id: text({
      description: 'Id of the build that made the image; empty if nothing was built.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    image: text({
      description: 'Image of the deployment; empty until the image is built.',
      examples: ['ghcr.io/example/web:latest'],
    }),
    image_tag: text({ description: 'Tag of the image.', examples: ['latest'] }),
    status: status(),
    created_at: dateTime({ description: 'When the deployment was requested.' }),
    updated_at: dateTime({ description: 'When the deployment last changed.' }),
    disk_mib: int64({ description: 'Writable disk of each VM in MiB.', examples: [1024] }),
    memory_mib: memoryMib(),
    vcpus: vcpus(),
    port: int64({ description: 'Port that the program in the VM listens on.', examples: [8080] }),
    hypervisor: int64({
      description:
        'Hypervisor of the VMs. 0: chosen by the scheduler, 1: firecracker, 2: cloud-hypervisor, 3: qemu, 9: fake.',
      examples: [1],
    }),
    ipv6_address: address(),
    git_branch: text({ description: 'Branch that was built; empty if no repository was built.', examples: ['main'] }),
    git_commit_hash: text({
      description:
        'Hash of the commit that was built; empty if no repository was built, or until the commit is fetched.',
      examples: ['4f1c2a9b7d3e5f60718293a4b5c6d7e8f9012345'],
    }),
    git_commit_message: text({ description: 'First line of the commit message.', examples: ['Answer on /health'] }),
    trigger_source: text({
      description:
        'What started the deployment: `manual`, `api`, `push` or `rollback`. Autoscaling changes the number of VMs without a deployment.',
      examples: ['push'],
    }),
    author: text({
      description:
        'Who requested the deployment or activated it last: the name or e-mail address of the account, or the author of the push; empty if unknown.',
      examples: ['Ada Lovelace'],
    }),
    started_at: nullable(
      dateTime({ description: 'When the deployment first passed its health check; null if it has not.' }),
    ),
    duration_ms: nullable(
      int64({
        description:
          'Milliseconds from the request until the deployment served requests, or until it ended without serving any; null while neither has happened.',
        examples: [8200],
      }),
    ),
    requests: int64({
      description:
        "Number of requests that gateways have sent to the deployment's VMs, updated every 10 seconds. A request that is retried on another VM counts twice. A WebSocket counts as one request; connections of TCP services are not counted.",
      examples: [1240],
    }),
    failed_requests: int64({
      description: 'Number of these requests that ended with a 5xx status or without a complete response.',
      examples: [2],
    }),
  },
  { description: 'A rollout of an app: its image and the size of its VMs, as requested.' },
)
export type Deployment = Static<typeof Deployment>

const FieldChange = resource(
  'DeploymentFieldChange',
  {
    field: text({ description: 'Name of the field that differs.', examples: ['image'] }),
    from: nullable(
      text({ description: 'Value in the other deployment, `base`; null if unset.', examples: ['nginx:1.26'] }),
    ),
    to: nullable(text({ description: 'Value in the deployment itself; null if unset.', examples: ['nginx:1.27'] })),
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
        description:
          'Job id of the other deployment, with which the deployment is compared; null for the first deployment of the app.',
        examples: ['job-77aa01e2c1d04f5b'],
      }),
    ),
    fields: list(FieldChange, { description: 'Differences in image, commit, size and settings.' }),
    env_added: envNames('exist only in the deployment itself'),
    env_removed: envNames('exist only in the other deployment'),
    env_changed: envNames('have different values'),
    files_added: filePaths('exist only in the deployment itself'),
    files_removed: filePaths('exist only in the other deployment'),
    files_changed: filePaths('differ in content, mode or variable'),
  },
  {
    description:
      'Differences between two deployments of an app. Values of variables and contents of files are never shown.',
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
  {
    description:
      'Status of a deployment after an action. To wait for a final status, get the deployment with `?wait=`.',
  },
)

const live = {
  app_id: text({
    description: 'Id of the app that the deployment belongs to.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  app_name: text({ description: 'Name of the app.', examples: ['web'] }),
  deployment_id: text({ description: 'UUID of the deployment.', examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'] }),
  job_id: jobId(),
  vm_id: text({
    description: "Id of the deployment's first VM; empty until a VM is placed on a host.",
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  host_id: text({
    description: 'Id of the host that runs the first VM; empty until that VM is placed.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  hypervisor: text({
    description: 'Hypervisor of the first VM; empty until the scheduler has chosen one.',
    examples: ['firecracker'],
  }),
  image: text({ description: 'Image of the deployment.', examples: ['ghcr.io/example/web:latest'] }),
  ipv6_address: address(),
  status: status(),
  scale_state: AppScaleState,
  cpu_usage: double({
    description: "Mean CPU usage of the deployment's VMs in percent of their vCPUs, 0 to 100.",
    examples: [12.5],
  }),
  memory_mib: memoryMib(),
  ram_used_bytes: int64({
    description: "Memory that the deployment's VMs use in total, in bytes.",
    examples: [134_217_728],
  }),
  rx_bytes: int64({
    description: 'Bytes that the current VMs have received since they started.',
    examples: [1_048_576],
  }),
  tx_bytes: int64({ description: 'Bytes that the current VMs have sent since they started.', examples: [5_242_880] }),
  vcpus: vcpus(),
}
const instant = (what: string, example: number) =>
  int64({ description: `${what}, in seconds since 1970; 0 if that has not happened.`, examples: [example] })

export const LiveDeployment = resource('LiveDeployment', live, {
  description: 'A live deployment, with its metrics as last reported by hosts.',
})
export type LiveDeployment = Static<typeof LiveDeployment>

const DeploymentStep = resource(
  'DeploymentStep',
  {
    name: text({
      description:
        'Name of the step, such as `image` (resolve the image), `base` (pull the image and make its file system), `disk` (make the writable disk), `spawn` (start the hypervisor), `boot` (boot the guest) and `healthy` (pass the health check).',
      examples: ['boot'],
    }),
    ms: double({ description: 'Duration of the step in milliseconds.', examples: [182.4] }),
  },
  { description: 'One step of the start of a VM.' },
)

const DeploymentCanary = resource(
  'DeploymentCanary',
  {
    state: oneOf(['running', 'passed', 'failed', 'cancelled'], {
      description: 'State of the canary. `cancelled`: the deployment was stopped, or replaced by a later one.',
    }),
    percent: double({ description: 'Percentage of the requests that the canary gets.', examples: [10] }),
    requests: int64({
      description: 'Number of requests that the canary has received, with a delay of a few seconds.',
      examples: [90],
    }),
    failed: int64({
      description: 'Number of these requests that ended with a 5xx status or without a response.',
      examples: [12],
    }),
    max_error_percent: double({
      description: 'Error threshold: the canary fails if a larger percentage of its requests fails.',
      examples: [5],
    }),
    started_at: dateTime({ description: 'When the canary began to receive requests.' }),
    ends_at: dateTime({
      description:
        'While the canary runs: when the deployment will get all requests if the canary does not fail. Afterwards: when the canary ended.',
    }),
  },
  { description: 'Canary phase of a deployment, in which it gets a share of the requests before it gets all of them.' },
)

export const LiveDeploymentStatus = resource(
  'LiveDeploymentStatus',
  {
    ...live,
    error_message: text({
      description: 'Why the deployment failed, or what it is waiting for; empty if neither applies.',
      examples: [''],
    }),
    scheduled_at: instant('When the deployment was placed on a host', 1_773_480_413),
    started_at: instant('When the deployment first passed its health check', 1_773_480_414),
    stopped_at: instant('When the last VM of the deployment stopped', 0),
    canary: nullable(DeploymentCanary),
    steps: list(DeploymentStep, { description: "Duration of each step in the start of the deployment's first VM." }),
  },
  { description: 'The current state of a deployment.' },
)
export type LiveDeploymentStatus = Static<typeof LiveDeploymentStatus>
