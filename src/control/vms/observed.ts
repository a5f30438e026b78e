import type { VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import { recordDisks } from './disks.ts'
import * as store from './observed-store.ts'

/** The VM is still starting: its workflow waits for a later state. */
const isStarting = ({ state, error }: VmObserved) => error === null && (state === 'preparing' || state === 'booting')

/** The VM is healthy. Poking its workflow would only make it query the host for this same state. */
const isHealthy = ({ state, healthy, error }: VmObserved) => error === null && state === 'running' && healthy

/**
 * Records an observation, whether it answers a request or was pushed by the host: updates the VM's row and its route,
 * and pokes the workflows that wait for it. A start produces a dozen observations, and each poke runs a workflow step
 * on the cores that the start needs, so only workflows affected by this change are poked.
 * @param observedCount for an answer: the VM's count when the request was sent. Observations that the host pushed since
 * then are newer.
 */
export async function recordObserved(
  tx: Tx,
  hostId: string,
  observed: VmObserved,
  observedCount?: number,
): Promise<boolean> {
  await recordDisks(tx, hostId, observed)
  const parents = await store.record(tx, hostId, observed, observedCount)
  if (!parents) return false
  if (parents.onlySteps) return true
  const awake = observed.healthy ? await store.wakeUp(tx, observed.vmId) : undefined
  await refreshRoute(tx, parents.appId)
  if (!isStarting(observed) && !isHealthy(observed)) await poke(tx, 'vm', observed.vmId)
  // Users and parent workflows do not distinguish these two states.
  if (isStarting(observed) && parents.wasState === 'preparing') return true
  if (parents.runId) {
    await poke(tx, 'run', parents.runId)
    return true
  }
  // A request is waiting for a page of the app, which has just woken up, on these same cores. The workflows run soon by
  // themselves.
  if (!awake?.looksSoon) await poke(tx, 'deployment', parents.deploymentId)
  if (parents.ownerId) await poke(tx, parents.owner, parents.ownerId)
  return true
}
