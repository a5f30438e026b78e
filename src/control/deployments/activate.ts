/** Rolls an app out, or back, to one of its deployments: the newest intent, whatever else is under way. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke, pokeMany } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { invalidState } from '../http/errors.ts'
import { refreshRoute } from '../routing/index.ts'
import { assertReplicasFit } from './limits.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'

/** Its machine takes it down: it can only serve again through a rollout of its own. */
const leavingPhases = ['stopping', 'failing', 'draining']
/** Its image and VMs are still to come, so its rollout only has to become the newest one. */
const comingPhases = ['building', 'rolling']

/**
 * Takes effect in the end, in each state of `d`.
 * @param d with its app and itself locked
 * @throws ApiError 409 when it has no image and none is being built, or when its replicas do not fit the plan
 */
export async function activate(tx: Tx, d: Deployment): Promise<void> {
  const isLeaving = d.phase !== null && leavingPhases.includes(d.phase)
  if (d.image === '' && (d.outcome !== null || isLeaving || d.want === 'stopped'))
    throw invalidState('It was never built, so there is nothing to start. Deploy again.')
  if (d.activeDeploymentId === d.id && !isLeaving) return stayActive(tx, d)
  if (canServeNow(d)) return switchTo(tx, d)
  if (d.phase !== null && comingPhases.includes(d.phase) && d.outcome === null) {
    await store.renew(tx, d.id)
    return poke(tx, 'deployment', d.id)
  }
  await assertReplicasFit(tx, d.projectId, d.id, Math.max(d.desiredReplicas, 1))
  await store.startAgain(tx, d.id, d.phase !== null)
  if (d.phase === null) await createWorkflow(tx, 'deployment', d.id, 'rolling', { deadlineMs: minutes(30) })
  else await poke(tx, 'deployment', d.id)
  if (d.exclusive && d.activeDeploymentId) await poke(tx, 'deployment', d.activeDeploymentId)
}

/** Rollouts that are under way are older now, and end. */
async function stayActive(tx: Tx, d: Deployment): Promise<void> {
  await store.renew(tx, d.id)
  await poke(tx, 'deployment', d.id)
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
}

/** Another one has replaced it, and its VMs are still well. */
const canServeNow = (d: Deployment) =>
  (d.phase === 'draining' || d.phase === 'serving') &&
  d.outcome === null &&
  d.want === 'running' &&
  d.vms.some(vm => vm.healthy && vm.want === 'running')

async function switchTo(tx: Tx, d: Deployment): Promise<void> {
  await store.renew(tx, d.id)
  await store.rolledBackTo(tx, d.id)
  await store.makeActive(tx, d.id)
  await poke(tx, 'deployment', d.id)
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await refreshRoute(tx, d.appId)
}
