/**
 * Activates a deployment: rolls the app forward or back to it. The newest activation supersedes every rollout in
 * progress.
 */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke, pokeMany } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { invalidState } from '../http/errors.ts'
import { refreshRoute } from '../routing/index.ts'
import { assertReplicasFit } from './limits.ts'
import { releaseDeadlineMs, startRelease } from './release.ts'
import type { Deployment } from './store.ts'
import * as active from './active-store.ts'
import * as store from './store.ts'

/** Phases in which the workflow removes the deployment's VMs, so that an activation cannot rely on these VMs. */
const leavingPhases = ['stopping', 'failing', 'draining']
/**
 * Phases of a rollout in progress: the image or the VMs are being created, or the release command runs. To activate a
 * deployment in one of these phases, it is enough to make its rollout the newest one of the app.
 */
const comingPhases = ['building', 'releasing', 'rolling', 'canary']

/**
 * Activates the deployment `d` in any state. It may take effect later, when its VMs are healthy.
 * @param d the deployment, locked together with its app
 * @throws ApiError 409 when the deployment has no image and no build in progress, or when its replicas exceed the plan
 */
export async function activate(tx: Tx, d: Deployment): Promise<void> {
  const isLeaving = d.phase !== null && leavingPhases.includes(d.phase)
  if (d.image === '' && (d.outcome !== null || isLeaving || d.want === 'stopped'))
    throw invalidState('The image of this deployment was never built. Deploy again.')
  if (d.activeDeploymentId === d.id && !isLeaving) return stayActive(tx, d)
  if (d.phase === 'canary' && hasHealthy(d)) return promote(tx, d)
  if (canServeNow(d)) return switchTo(tx, d)
  if (d.phase !== null && comingPhases.includes(d.phase) && d.outcome === null) {
    await store.renew(tx, d.id)
    return poke(tx, 'deployment', d.id)
  }
  await assertReplicasFit(tx, d.projectId, d.id, Math.max(d.desiredReplicas, 1))
  await store.startAgain(tx, d.id, d.phase !== null)
  if (d.phase === null) await beginAgain(tx, d)
  else await poke(tx, 'deployment', d.id)
  if (d.exclusive && d.activeDeploymentId) await poke(tx, 'deployment', d.activeDeploymentId)
}

async function beginAgain(tx: Tx, d: Deployment): Promise<void> {
  if (d.isReleased) return createWorkflow(tx, 'deployment', d.id, 'rolling', { deadlineMs: minutes(30) })
  await createWorkflow(tx, 'deployment', d.id, 'releasing', { deadlineMs: releaseDeadlineMs })
  // The release command has not succeeded for this deployment (it failed or was cancelled), so it runs now.
  await startRelease(tx, d)
}

/** Supersedes all other rollouts in progress and keeps the deployment `d` active. */
async function stayActive(tx: Tx, d: Deployment): Promise<void> {
  await store.renew(tx, d.id)
  await poke(tx, 'deployment', d.id)
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  // The route is updated, because VMs of a superseded rollout may already be in it.
  if (d.exclusive) await refreshRoute(tx, d.appId)
}

/**
 * Returns whether the deployment can serve again at once: another deployment has replaced it, but its VMs are still
 * healthy.
 */
const canServeNow = (d: Deployment) =>
  (d.phase === 'draining' || d.phase === 'serving') && d.outcome === null && d.want === 'running' && hasHealthy(d)

const hasHealthy = (d: Deployment) => d.vms.some(vm => vm.healthy && vm.want === 'running')

/** Ends the canary early: the deployment gets all requests now, and its workflow records that the canary has passed. */
async function promote(tx: Tx, d: Deployment): Promise<void> {
  await store.renew(tx, d.id)
  await active.makeActive(tx, d.id)
  await poke(tx, 'deployment', d.id)
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await refreshRoute(tx, d.appId)
}

async function switchTo(tx: Tx, d: Deployment): Promise<void> {
  await store.renew(tx, d.id)
  await store.rolledBackTo(tx, d.id)
  await active.makeActive(tx, d.id)
  await poke(tx, 'deployment', d.id)
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await refreshRoute(tx, d.appId)
}
