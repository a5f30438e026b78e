/**
 * The verbs (operations such as pause and delete) that users apply to a deployment. Each takes effect eventually, or is
 * refused with 409.
 */
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { invalidState } from '../http/errors.ts'
import { refreshRoute } from '../routing/index.ts'
import { activate } from './activate.ts'
import { announceById } from './announce.ts'
import { removeDeployment, takeDown } from './end.ts'
import { type Verb, assertCan, statusOf } from './rules.ts'
import type { Deployment } from './store.ts'
import * as active from './active-store.ts'
import * as store from './store.ts'

const verbs: Readonly<Record<Verb, (tx: Tx, d: Deployment) => Promise<void>>> = {
  activate,
  stop,
  cancel: stop,
  delete: (tx, d) => removeDeployment(tx, d.id),
  async pause(tx, d) {
    assertNotReplaced(d)
    // If the app is about to scale to zero, that is cancelled: a paused deployment keeps its memory.
    await active.moveScale(tx, d.appId, 'idle', 'active')
    await want(tx, d, 'paused')
  },
  async resume(tx, d) {
    assertNotReplaced(d)
    await want(tx, d, 'running')
  },
}

/**
 * Refuses a deployment that another one has replaced. Its workflow is about to take it down, but its status does not
 * show that yet.
 */
function assertNotReplaced(d: Deployment): void {
  if (d.activeDeploymentId !== d.id && d.phase !== 'rolling' && d.phase !== 'canary')
    throw invalidState('Another deployment of the app has replaced this one. Activate this one first.')
}

/**
 * Applies a verb to a deployment.
 * @param d the deployment, locked together with its app
 * @throws ApiError 409 `invalid_state` when its status does not allow the verb
 */
export async function apply(tx: Tx, verb: Verb, d: Deployment): Promise<void> {
  assertCan(verb, statusOf(d))
  await verbs[verb](tx, d)
  await announceById(tx, d.id)
}

async function want(tx: Tx, d: Deployment, state: 'running' | 'paused'): Promise<void> {
  await store.desired(tx, d.id, state)
  await poke(tx, 'deployment', d.id)
  await refreshRoute(tx, d.appId)
}

async function stop(tx: Tx, d: Deployment): Promise<void> {
  if (d.outcome) return
  await store.desired(tx, d.id, 'stopped')
  await takeDown(tx, d.id)
}
