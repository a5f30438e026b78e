import type { VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { refreshRoute } from '../routing/index.ts'
import { recordDisks } from './disks.ts'
import * as store from './seen-store.ts'

/**
 * The one way an observation enters the database, whether it came with an answer or by itself: the VM's row, the route
 * that depends on it, and a poke for everybody who waits for it.
 * @param seenCount for an answer: the VM's count when it was asked for. What the host said by itself since then is newer.
 */
export async function recordSeen(tx: Tx, hostId: string, seen: VmObserved, seenCount?: number): Promise<boolean> {
  await recordDisks(tx, hostId, seen)
  const parents = await store.record(tx, hostId, seen, seenCount)
  if (!parents) return false
  if (seen.healthy) await store.wakeUp(tx, seen.vmId)
  await refreshRoute(tx, parents.appId)
  await poke(tx, 'vm', seen.vmId)
  await poke(tx, 'deployment', parents.deploymentId)
  if (parents.ownerId) await poke(tx, parents.owner, parents.ownerId)
  return true
}
