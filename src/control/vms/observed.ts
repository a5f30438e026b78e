import type { VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import { recordDisks } from './disks.ts'
import * as store from './observed-store.ts'

/** It gets ready to run: its own machine waits for what comes after that. */
const isOnItsWay = ({ state, error }: VmObserved) => error === null && (state === 'preparing' || state === 'booting')

/** As it shall be: its machine, which looks again soon as long as it waits for that, would ask the host what has just been told. */
const isWell = ({ state, healthy, error }: VmObserved) => error === null && state === 'running' && healthy

/**
 * The one way an observation enters the database, whether it came with an answer or by itself: the VM's row, the route
 * that depends on it, and a poke for everybody who waits for it. A start says a dozen things, and each poke is a step of a
 * machine, on the cores that the start needs: nobody is poked for what changes nothing for him.
 * @param observedCount for an answer: the VM's count when it was asked for. What the host said by itself since then is newer.
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
  if (!isOnItsWay(observed) && !isWell(observed)) await poke(tx, 'vm', observed.vmId)
  // To people and to those above it, that is the same.
  if (isOnItsWay(observed) && parents.wasState === 'preparing') return true
  // Somebody waits for a page of an app that is awake now, on these cores: its machines look by themselves, a moment later.
  if (!awake?.looksSoon) await poke(tx, 'deployment', parents.deploymentId)
  if (parents.ownerId) await poke(tx, parents.owner, parents.ownerId)
  return true
}
