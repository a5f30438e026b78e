/** The plan's totals, for whatever makes a deployment that exists larger. */
import type { Tx } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { assertWithin, lockLimits } from '../projects/index.ts'
import * as store from './store.ts'

/**
 * The project is locked until the transaction ends.
 * @throws ApiError 403 `plan_limit_exceeded` when so many more VMs of this deployment are more than the plan allows
 */
export async function assertReplicasFit(tx: Tx, projectId: string, deploymentId: string, more: number): Promise<void> {
  const d = more > 0 ? await store.byId(tx, deploymentId) : undefined
  if (d) await assertSizesFit(tx, projectId, d.appId, d, more)
}

/** @throws ApiError 403 `plan_limit_exceeded`; the project is locked until the transaction ends */
export async function assertSizesFit(
  tx: Tx,
  projectId: string,
  appId: string,
  size: { readonly vcpus: number; readonly memoryMib: number },
  count: number,
): Promise<void> {
  const limits = await lockLimits(tx, projectId)
  const used = await store.usage(tx, projectId, appId)
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
