/** Assembles the control plane: the features that serve requests, and the workflows and sweeps that do the work. */
import type { AnyWorkflow } from '../engine/workflow.ts'
import type { Sweep } from '../engine/sweep.ts'
import { appLogFeature, logRetention } from './app-logs/index.ts'
import { appContents, appFeature, appFileFeature, appWorkflow } from './apps/index.ts'
import { auditFeature, auditHeads, auditRetention, auditSealing } from './audit/index.ts'
import { authFeature, expiredCredentials } from './auth/index.ts'
import { billingWebhookFeature, billingFeature, billingPlans, billingSync } from './billing/index.ts'
import { deploymentFeature, deploymentWorkflow } from './deployments/index.ts'
import { buildFeature, buildLogRetention, buildWorkflow, sourceRetention } from './builds/index.ts'
import {
  branchWorkflow,
  databaseBackups,
  databaseContents,
  databaseDrills,
  databaseSpares,
  databaseFeature,
  databaseSnapshotWorkflow,
  upcallFeature,
} from './databases/index.ts'
import type { Deps } from './base/deps.ts'
import { variableFeature } from './variables/index.ts'
import { apiDocsFeature } from './api-docs/index.ts'
import { allOperations } from './operations.ts'
import { certificates, createIssuer, createResolver, domainChecks, domainFeature } from './domains/index.ts'
import { eventRetention } from './events/index.ts'
import { historyFeature, historyUpkeep, usageSampling } from './history/index.ts'
import { healthFeature } from './health/index.ts'
import { deadHosts, hostFeature, hostWorkflow } from './fleet/index.ts'
import { autoscaler, idleApps } from './scaling/index.ts'
import { dueJobs, jobFeature } from './jobs/index.ts'
import type { LiveStats } from './hosts/index.ts'
import type { Feature } from './http/operation.ts'
import type { Security } from './http/ports.ts'
import { drainedSnapshots, snapshotMoveWorkflow, volumeMoveWorkflow } from './moves/index.ts'
import { networkFeature } from './network/index.ts'
import { notificationMails, outgoingMails, notificationsFeature } from './notifications/index.ts'
import { type ProjectContents, projectWorkflow, projectsFeature } from './projects/index.ts'
import { registryFeature } from './registries/index.ts'
import { goneRoutes } from './routing/index.ts'
import { runtimeFeature } from './vm-operations/index.ts'
import { runFeature } from './run-operations/index.ts'
import { runRetention, runWorkflow } from './runs/index.ts'
import { tcpServiceFeature } from './tcp-services/index.ts'
import { budgetKeeping, usageCounting, usageFeature } from './usage/index.ts'
import { scmWebhookFeature, createSourceHost, scmFeature, scmReports, scmUpkeep, sourceAuth } from './scm/index.ts'
import { sessionUpkeep, vmFileFeature, vmSessionFeature } from './vm-sessions/index.ts'
import { snapshotWorkflow, vmWorkflow } from './vms/index.ts'
import { migrationWorkflow } from './migrations/index.ts'
import {
  drainedVolumes,
  fullVolumes,
  scheduledSnapshots,
  volumeContents,
  volumeFeature,
  volumeWorkflow,
  volumeSnapshotWorkflow,
} from './volumes/index.ts'

export type ControlDeps = Deps & { readonly live: LiveStats }

export const features = (deps: ControlDeps, security: Security): readonly Feature[] => [
  healthFeature(deps),
  apiDocsFeature(allOperations),
  authFeature(deps),
  projectsFeature(deps),
  auditFeature(deps),
  notificationsFeature(deps),
  billingFeature(deps),
  usageFeature(deps),
  billingWebhookFeature(deps),
  scmWebhookFeature(deps, createSourceHost(deps)),
  scmFeature(deps, createSourceHost(deps)),
  appFeature(deps),
  appFileFeature(deps),
  variableFeature(deps),
  domainFeature(deps, createResolver(deps.config.dnsServers)),
  deploymentFeature(deps),
  appLogFeature(deps),
  historyFeature(deps),
  runFeature(deps),
  jobFeature(deps),
  buildFeature(deps),
  hostFeature(deps),
  runtimeFeature(deps),
  vmSessionFeature(deps),
  vmFileFeature(deps),
  databaseFeature(deps),
  upcallFeature(deps),
  volumeFeature(deps),
  networkFeature(deps),
  registryFeature(deps, security),
  tcpServiceFeature(deps),
]

/** The kinds of resources in a project, in the order in which they are removed when the project is deleted. */
export const projectContents: readonly ProjectContents[] = [databaseContents, appContents, volumeContents]

export const workflows = (deps: ControlDeps): readonly AnyWorkflow[] => [
  projectWorkflow(deps, projectContents),
  appWorkflow(deps),
  deploymentWorkflow(deps),
  runWorkflow(deps),
  buildWorkflow({ ...deps, sourceAuth: sourceAuth(deps, createSourceHost(deps)) }),
  vmWorkflow(deps),
  snapshotWorkflow(deps),
  migrationWorkflow(deps),
  branchWorkflow(deps),
  databaseSnapshotWorkflow(deps),
  volumeWorkflow(deps),
  volumeSnapshotWorkflow(deps),
  volumeMoveWorkflow(deps),
  snapshotMoveWorkflow(deps),
  hostWorkflow(deps),
]

export const sweeps = (deps: ControlDeps): readonly Sweep[] => [
  expiredCredentials(deps),
  auditSealing(deps),
  auditRetention(deps),
  auditHeads(deps),
  notificationMails(deps),
  outgoingMails(deps),
  eventRetention(deps),
  billingPlans(deps),
  billingSync(deps),
  goneRoutes(deps),
  domainChecks(deps, createResolver(deps.config.dnsServers)),
  certificates(deps, createIssuer(deps)),
  scmReports(deps, createSourceHost(deps)),
  scmUpkeep(deps),
  logRetention(deps),
  buildLogRetention(deps),
  sourceRetention(deps),
  usageCounting(deps),
  budgetKeeping(deps),
  deadHosts(deps),
  drainedSnapshots(deps),
  usageSampling(deps),
  historyUpkeep(deps),
  idleApps(deps),
  autoscaler(deps),
  scheduledSnapshots(deps),
  fullVolumes(deps),
  drainedVolumes(deps),
  sessionUpkeep(deps),
  runRetention(deps),
  dueJobs(deps),
  databaseBackups(deps),
  databaseDrills(deps),
  databaseSpares(deps),
]
