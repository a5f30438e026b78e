/** What the control plane consists of: the features that serve requests, the machines and sweeps that do the work. */
import type { AnyMachine } from '../engine/machine.ts'
import type { Sweep } from '../engine/sweep.ts'
import { appContents, appFeature, appMachine } from './apps/index.ts'
import { auditFeature, auditHeads, auditRetention, auditSealing } from './audit/index.ts'
import { authFeature, expiredCredentials } from './auth/index.ts'
import { billingFeature, billingPlans, billingSync } from './billing/index.ts'
import { deploymentFeature, deploymentMachine } from './deployments/index.ts'
import { buildFeature, buildLogRetention, buildMachine, sourceRetention } from './builds/index.ts'
import {
  branchMachine,
  databaseBackups,
  databaseContents,
  databaseDrills,
  databaseSpares,
  databaseFeature,
  databaseSnapshotMachine,
  upcallFeature,
} from './databases/index.ts'
import type { Deps } from './deps.ts'
import { certificates, createIssuer, createResolver, domainChecks, domainFeature } from './domains/index.ts'
import { eventRetention } from './events/index.ts'
import { healthFeature } from './health/index.ts'
import { autoscaler, deadHosts, hostFeature, hostMachine, idleApps } from './fleet/index.ts'
import type { LiveStats } from './hosts/index.ts'
import type { Feature } from './http/operation.ts'
import { drainedSnapshots, snapshotMoveMachine, volumeMoveMachine } from './moves/index.ts'
import { networkFeature } from './network/index.ts'
import { notificationMails, outgoingMails, notificationsFeature } from './notifications/index.ts'
import { type ProjectContents, projectMachine, projectsFeature } from './projects/index.ts'
import { goneRoutes } from './routing/index.ts'
import { runtimeFeature } from './runtime/index.ts'
import { budgetKeeping, usageCounting, usageFeature } from './usage/index.ts'
import { createSourceHost, scmFeature, scmReports, scmUpkeep, sourceAuth } from './scm/index.ts'
import { migrationMachine, snapshotMachine, vmMachine } from './vms/index.ts'
import {
  drainedVolumes,
  fullVolumes,
  scheduledSnapshots,
  volumeContents,
  volumeFeature,
  volumeMachine,
  volumeSnapshotMachine,
} from './volumes/index.ts'
import { webhookFeature } from './webhooks/index.ts'

export type ControlDeps = Deps & { readonly live: LiveStats }

export const features = (deps: ControlDeps): readonly Feature[] => [
  healthFeature(deps),
  authFeature(deps),
  projectsFeature(deps),
  auditFeature(deps),
  notificationsFeature(deps),
  billingFeature(deps),
  usageFeature(deps),
  webhookFeature(deps, createSourceHost(deps)),
  scmFeature(deps, createSourceHost(deps)),
  appFeature(deps),
  domainFeature(deps, createResolver(deps.config.dnsServers)),
  deploymentFeature(deps),
  buildFeature(deps),
  hostFeature(deps),
  runtimeFeature(deps),
  databaseFeature(deps),
  upcallFeature(deps),
  volumeFeature(deps),
  networkFeature(deps),
]

/** What a project holds, in the order it is torn down. */
export const projectContents: readonly ProjectContents[] = [databaseContents, appContents, volumeContents]

export const machines = (deps: ControlDeps): readonly AnyMachine[] => [
  projectMachine(deps, projectContents),
  appMachine(deps),
  deploymentMachine(deps),
  buildMachine({ ...deps, sourceAuth: sourceAuth(deps, createSourceHost(deps)) }),
  vmMachine(deps),
  snapshotMachine(deps),
  migrationMachine(deps),
  branchMachine(deps),
  databaseSnapshotMachine(deps),
  volumeMachine(deps),
  volumeSnapshotMachine(deps),
  volumeMoveMachine(deps),
  snapshotMoveMachine(deps),
  hostMachine(deps),
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
  buildLogRetention(deps),
  sourceRetention(deps),
  usageCounting(deps),
  budgetKeeping(deps),
  deadHosts(deps),
  drainedSnapshots(deps),
  idleApps(deps),
  autoscaler(deps),
  scheduledSnapshots(deps),
  fullVolumes(deps),
  drainedVolumes(deps),
  databaseBackups(deps),
  databaseDrills(deps),
  databaseSpares(deps),
]
