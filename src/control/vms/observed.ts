import type { VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import { recordDisks } from './disks.ts'
import * as store from './observed-store.ts'

/** Returns whether the VM is still starting. Its workflow waits for a later state. */
const isStarting = ({ state, error }: VmObserved) => error === null && (state === 'preparing' || state === 'booting')

/** Returns whether the VM is healthy. A poke would only make its workflow query the host for this same state. */
const isHealthy = ({ state, healthy, error }: VmObserved) => error === null && state === 'running' && healthy

/**
 * Records an observation, which the host sent in a response or by itself: updates the VM's row and route, and pokes the
 * workflows that wait for the change. Only those: a start causes a dozen observations, and each poke runs a workflow
 * step.
 * @param observedCount for a response: the VM's count when the request was sent. If the host has reported since, the
 * response is outdated and is ignored.
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
  // `preparing` and `booting` look the same to users and parent workflows.
  if (isStarting(observed) && parents.wasState === 'preparing') return true
  if (parents.runId) {
    await poke(tx, 'run', parents.runId)
    return true
  }
  // A request to the waking app is waiting, and competes with workflow steps for these cores. Don't poke a workflow
  // that runs soon anyway.
  if (!awake?.looksSoon) await poke(tx, 'deployment', parents.deploymentId)
  if (parents.ownerId) await poke(tx, parents.owner, parents.ownerId)
  return true
}
