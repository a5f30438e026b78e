/** Deployments: rollouts, replicas, scale to zero, logs and live metrics. */
export type { NewDeployment } from './create-store.ts'
export { addCanaryCounts } from './canary.ts'
export { addVmCounts } from './request-counts.ts'
export type { CanarySettings } from './canary-facts.ts'
export { strategies, type Strategy } from './one-at-a-time.ts'
export { restartPolicies, type RestartSettings } from './restart.ts'
export { createDeployment } from './create.ts'
export { claimVm, type DeployBody, type DeployCall, deploy } from './deploy.ts'
export { removeDeployment, supersedeDeployment } from './end.ts'
export { assertReplicasFit, assertSizesFit, replicasFit } from './limits.ts'
export { streamLogs } from './logs.ts'
export { assertHostsHold } from './room.ts'
export { deploymentWorkflow } from './workflow.ts'
export { streamMetrics } from './metrics.ts'
export { type Leaving, drainReport } from './drain-report.ts'
export { setPaused } from './pause.ts'
export { type Bed, wakeNow } from './sleep.ts'
export {
  activeOfApp as findActive,
  appRef as findApp,
  type Deployment,
  type DeploymentVm,
  inApp as findDeployment,
  lockInApp as lockDeployment,
} from './store.ts'
export { deploymentFeature } from './routes.ts'
