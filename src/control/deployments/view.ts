import type { Static } from 'typebox'
import type { LiveStats } from '../hosts/index.ts'
import { hypervisorName } from '../vms/index.ts'
import { canaryEndsAt } from './canary.ts'
import { imageTag, statusOf } from './rules.ts'
import type { Deployment as DeploymentShape, LiveDeployment, LiveDeploymentStatus } from './schema.ts'
import type { ActiveDeployment, ListedDeployment } from './list-store.ts'
import type { Deployment } from './store.ts'

/** Returns the VM that fields about a single VM describe: the oldest one that is not being removed. */
const firstVm = <Vm extends { readonly want: string }>(d: { readonly vms: readonly Vm[] }) =>
  d.vms.find(vm => vm.want !== 'absent') ?? d.vms[0]
const unixSeconds = (at: Date | null) => (at ? Math.floor(at.getTime() / 1000) : 0)

/** Duration from the request of the rollout until the deployment served or ended; null while neither has happened. */
function rolloutMs({ requestedAt, startedAt, stoppedAt }: ListedDeployment): number | null {
  const end = startedAt ?? stoppedAt
  return end && end >= requestedAt ? end.getTime() - requestedAt.getTime() : null
}

/** Renders the deployment as it is stored. */
export const deploymentView = (d: ListedDeployment): Static<typeof DeploymentShape> => ({
  id: d.id,
  app_id: d.appId,
  tenant_id: d.projectId,
  job_id: d.jobId,
  build_id: d.buildId,
  image: d.image,
  image_tag: imageTag(d.image),
  status: statusOf(d),
  created_at: d.createdAt.toISOString(),
  updated_at: d.updatedAt.toISOString(),
  disk_mib: d.diskMib,
  memory_mib: d.memoryMib,
  vcpus: d.vcpus,
  port: d.port,
  hypervisor: d.hypervisor,
  ipv6_address: firstVm(d)?.ipv6Address ?? '',
  git_branch: d.gitBranch,
  git_commit_hash: d.gitCommitHash,
  git_commit_message: d.gitCommitMessage,
  trigger_source: d.triggerSource,
  author: d.author,
  started_at: d.startedAt?.toISOString() ?? null,
  duration_ms: rolloutMs(d),
  requests: d.requests,
  failed_requests: d.failedRequests,
})

/**
 * Renders the live view of a deployment. Its metrics are the last ones that the hosts reported, summed over its VMs
 * (for CPU, the mean).
 */
export function liveView(d: ActiveDeployment, live: LiveStats): Static<typeof LiveDeployment> {
  const vm = firstVm(d)
  const stats = d.vms.flatMap(one => live.get(one.id) ?? [])
  const sum = (pick: (s: (typeof stats)[number]) => number) => stats.reduce((total, s) => total + pick(s), 0)
  return {
    app_id: d.appId,
    app_name: d.appName,
    deployment_id: d.id,
    job_id: d.jobId,
    vm_id: vm?.id ?? '',
    host_id: vm?.hostId ?? '',
    hypervisor: vm?.hypervisor ?? hypervisorName(d.hypervisor) ?? '',
    image: d.image,
    ipv6_address: vm?.ipv6Address ?? '',
    status: statusOf(d),
    scale_state: d.scaleState,
    cpu_usage: stats.length === 0 ? 0 : sum(s => s.cpuUsage) / stats.length,
    memory_mib: d.memoryMib,
    ram_used_bytes: sum(s => s.ramUsedBytes),
    rx_bytes: sum(s => s.rxBytes),
    tx_bytes: sum(s => s.txBytes),
    vcpus: d.vcpus,
  }
}

/** Returns the reason why the deployment makes no progress, if there is one. */
const troubleOf = (d: Deployment) =>
  d.build?.state === 'queued'
    ? 'The build is queued, or waits for room on a host.'
    : (d.vms.find(vm => vm.error)?.error ?? d.vms.find(vm => vm.placementNote)?.placementNote)

function canaryView(d: Deployment): Static<typeof LiveDeploymentStatus>['canary'] {
  if (!d.canary || !d.canaryState || !d.canaryStartedAt) return null
  return {
    state: d.canaryState,
    percent: d.canary.percent,
    requests: d.canaryRequests,
    failed: d.canaryFailed,
    max_error_percent: d.canary.max_error_percent,
    started_at: d.canaryStartedAt.toISOString(),
    ends_at: (d.canaryEndedAt ?? canaryEndsAt(d.canary, d.canaryStartedAt)).toISOString(),
  }
}

export const statusView = (d: Deployment, live: LiveStats): Static<typeof LiveDeploymentStatus> => ({
  ...liveView(d, live),
  error_message: d.errorMessage ?? troubleOf(d) ?? '',
  scheduled_at: unixSeconds(d.scheduledAt),
  started_at: unixSeconds(d.startedAt),
  stopped_at: unixSeconds(d.stoppedAt),
  canary: canaryView(d),
  steps: firstVm(d)?.steps.map(({ name, ms }) => ({ name, ms })) ?? [],
})
