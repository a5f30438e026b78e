import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { pokeSweep } from '../../engine/sweeper.ts'
import { assertSizesFit, setPaused } from '../deployments/index.ts'
import { assertStorageFits } from '../volumes/index.ts'
import * as spares from './spare-store.ts'
import * as store from './store.ts'

export const sparesSweep = 'database-spares'

/**
 * The branch that stands ready becomes the one that was asked for, and goes on. One that is still being made is as good: it
 * is further than a new one. Its VM and disks count from here on.
 * @returns its id; undefined when there is none of this snapshot
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
