/** Checks the plan's totals when an existing deployment grows. */
import type { Tx } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { assertWithin, lockLimits } from '../projects/index.ts'
import * as creating from './create-store.ts'
import * as store from './store.ts'

/**
 * Checks that the plan allows `more` additional VMs of the deployment's size. Locks the project until the transaction
 * ends.
 * @throws ApiError 403 `plan_limit_exceeded`
 */
export async function assertReplicasFit(tx: Tx, projectId: string, deploymentId: string, more: number): Promise<void> {
  const d = more > 0 ? await store.byId(tx, deploymentId) : undefined
  if (d) await assertSizesFit(tx, projectId, d.appId, d, more)
}

/**
 * Checks that the plan allows `count` additional VMs of the given size. Locks the project until the transaction ends.
 * @throws ApiError 403 `plan_limit_exceeded`
 */
export async function assertSizesFit(
  tx: Tx,
  projectId: string,
  appId: string,
  size: { readonly vcpus: number; readonly memoryMib: number },
  count: number,
): Promise<void> {
  const limits = await lockLimits(tx, projectId)
  const used = await creating.usage(tx, projectId, appId)
  assertWithin(limits, 'maxVcpusTotal', used.vcpus, size.vcpus * count)
  assertWithin(limits, 'maxMemoryMibTotal', used.memoryMib, size.memoryMib * count)
}

export async function replicasFit(tx: Tx, projectId: string, deploymentId: string, more: number): Promise<boolean> {
  try {
    await assertReplicasFit(tx, projectId, deploymentId, more)
    return true
  } catch (refusal) {
    if (refusal instanceof ApiError) return false
    throw refusal
  }
}
