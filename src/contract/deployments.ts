/** What a deployment can be and which verbs its status allows: the control plane decides by it, the dashboard explains by it. */
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

/** Which verb is possible in which status. `stop` of what is stopped and so on are no faults: they are done already. */
export const can = {
  stop: [...alive, 'stopping', ...over],
  cancel: ['pending', 'building', 'scheduled', 'starting'],
  pause: ['running', 'unhealthy', 'pausing', 'paused', 'resuming'],
  resume: ['paused', 'pausing', 'resuming', 'running'],
  delete: [...alive, 'stopping', ...over],
  activate: [...alive, 'stopping', ...over],
} as const satisfies Record<DeploymentVerb, readonly DeploymentStatus[]>
