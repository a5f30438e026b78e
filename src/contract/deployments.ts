/**
 * Statuses of a deployment and the verbs that each status allows. The control plane enforces this table, and the
 * dashboard shows the allowed verbs.
 */
export const deploymentStatuses = [
  'pending',
  'building',
  'scheduled',
  'starting',
  'running',
  'unhealthy',
  'pausing',
  'paused',
  'resuming',
  'sleeping',
  'migrating',
  'stopping',
  'stopped',
  'superseded',
  'failed',
  'cancelled',
  'deleted',
] as const
export type DeploymentStatus = (typeof deploymentStatuses)[number]

export type DeploymentVerb = 'stop' | 'cancel' | 'pause' | 'resume' | 'delete' | 'activate'

const alive: readonly DeploymentStatus[] = [
  'pending',
  'building',
  'scheduled',
  'starting',
  'running',
  'unhealthy',
  'paused',
  'pausing',
  'resuming',
  'sleeping',
  'migrating',
]
const over: readonly DeploymentStatus[] = ['stopped', 'superseded', 'failed', 'cancelled']

/**
 * For each verb (operation), the statuses of a deployment in which it is allowed. Verbs without effect (`stop` of a
 * stopped deployment) are allowed, because they are idempotent.
 */
export const can = {
  stop: [...alive, 'stopping', ...over],
  cancel: ['pending', 'building', 'scheduled', 'starting'],
  pause: ['running', 'unhealthy', 'pausing', 'paused', 'resuming'],
  resume: ['paused', 'pausing', 'resuming', 'running'],
  delete: [...alive, 'stopping', ...over],
  activate: [...alive, 'stopping', ...over],
} as const satisfies Record<DeploymentVerb, readonly DeploymentStatus[]>
