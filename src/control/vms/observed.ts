import type { VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import { recordDisks } from './disks.ts'
import * as store from './observed-store.ts'

/** Returns whether the VM is still starting. Then its workflow needs no poke, because it waits for a later state. */
const isStarting = ({ state, error }: VmObserved) => error === null && (state === 'preparing' || state === 'booting')

/**
 * Returns whether the VM is healthy. Then its workflow needs no poke: it would only query the host for the state that
 * the host has just reported.
 */
const isHealthy = ({ state, healthy, error }: VmObserved) => error === null && state === 'running' && healthy

/**
 * Records an observation, which the host sent in a response or by itself: updates the VM's row and route, and pokes
 * the workflows that wait for the change. Other workflows are not poked, because the start of a VM causes a dozen
 * observations, and each poke runs a workflow step.
 * @param observedCount for an observation in a response: the VM's `observedCount` when the request was sent. If the
 * host has sent another report since then, the response is outdated and is ignored.
 * @returns whether the observation changed something
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
  // A change from `preparing` to `booting` concerns neither users nor the workflows of the deployment or run.
  if (isStarting(observed) && parents.wasState === 'preparing') return true
  if (parents.runId) {
    await poke(tx, 'run', parents.runId)
    return true
  }
  // Do not poke a workflow that runs soon anyway: a request to the app that wakes up is waiting, and the workflow's
  // steps would take CPU time from it.
  if (!awake?.looksSoon) await poke(tx, 'deployment', parents.deploymentId)
  if (parents.ownerId) await poke(tx, parents.owner, parents.ownerId)
  return true
}
