import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { pokeSweep } from '../../engine/sweeper.ts'
import { assertSizesFit, setPaused } from '../deployments/index.ts'
import { assertStorageFits } from '../volumes/index.ts'
import * as spares from './spare-store.ts'
import * as store from './store.ts'

export const sparesSweep = 'database-spares'

/**
 * Turns the spare branch into the requested one and resumes it. A spare that is still starting is used as well, because
 * it is ready earlier than a new branch would be. From here on, the spare's VM and disks count toward the plan.
 * @returns the id of the branch; undefined when the snapshot has no spare
 * @throws ApiError 403 `plan_limit_exceeded`; the unique index's error when the database has a branch of this name
 */
export async function takeSpare(
  tx: Tx,
  request: { readonly databaseId: string; readonly snapshotId: string; readonly name: string },
): Promise<string | undefined> {
  const id = await spares.claim(tx, request)
  const b = id === undefined ? undefined : await store.branch(tx, id)
  if (!b) return undefined
  await assertSizesFit(tx, b.projectId, b.id, b.database, 0)
  await assertStorageFits(tx, b.projectId)
  if (b.appId) await spares.startCounting(tx, b.appId)
  for (const deployment of b.deployments) await setPaused(tx, deployment.id, 'running')
  await poke(tx, 'database', b.id)
  await pokeSweep(tx, sparesSweep)
  return b.id
}
