/**
 * Grows volumes: changes the volume's size in its row and pokes its workflow, in the caller's transaction. Volumes
 * cannot shrink.
 */
import { statement, type Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { listPools } from '../hosts/index.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import { assertWithin, lockLimits } from '../projects/index.ts'
import * as rules from './rules.ts'
import * as store from './store.ts'
import type { Volume } from './store.ts'

/**
 * Sets a larger size of the volume. The volume's workflow then grows the volume on its host, even while a VM uses it.
 * A request for the current size changes nothing.
 * @throws ApiError 400 (`field`: smaller than the current size, or too large), 403 `plan_limit_exceeded`, 404, 409
 * `operation_in_progress`, `invalid_state`, 503 `no_capacity`
 */
export async function growVolume(tx: Tx, id: string, sizeMib: number, field = 'size_mib'): Promise<Volume> {
  const volume = await store.lock(tx, id)
  if (!volume) throw notFound()
  rules.checkSize(sizeMib, field)
  if (sizeMib < volume.sizeMib)
    throw invalidField(field, `must be at least ${volume.sizeMib}: a volume can grow but not shrink`)
  if (sizeMib === volume.sizeMib) return volume
  if (volume.state === 'restoring')
    throw rules.underWay(`Volume ${volume.name} is being restored. Wait until that is done.`)
  rules.assertAtRest(volume)
  if (volume.state === 'failed') throw invalidState(`Volume ${volume.name} could not be created; see its message.`)
  const limits = await lockLimits(tx, volume.projectId)
  const used = await store.projectUsage(tx, volume.projectId)
  const before = Math.ceil(used.sizeMib / 1024)
  const after = Math.ceil((used.sizeMib + sizeMib - volume.sizeMib) / 1024)
  assertWithin(limits, 'maxStorageGibTotal', before, after - before)
  await assertRoom(tx, volume, sizeMib - volume.sizeMib)
  await store.grow(tx, id, sizeMib)
  await poke(tx, 'volume', id)
  return (await store.byId(tx, id)) ?? volume
}

// Serializes the growth of volumes in one pool, so that the second of two requests is checked against the space that
// the first has left.
const lockPool = statement(
  'volumes.lockPool',
  `SELECT pg_advisory_xact_lock(hashtextextended('pool ' || coalesce($1::text, '') || ' ' || $2::text, 0))`,
)

/** Checks that the pool has room for the growth. `roomMib` of a pool excludes the full sizes of existing volumes. */
async function assertRoom(tx: Tx, volume: Volume, moreMib: number): Promise<void> {
  await tx.run(lockPool, [volume.hostId, volume.poolName])
  const pool = (await listPools(tx)).find(one => one.hostId === volume.hostId && one.name === volume.poolName)
  if (pool && pool.roomMib < moreMib)
    throw new ApiError(
      'no_capacity',
      `The storage pool of the volume has room for ${Math.max(0, pool.roomMib)} MiB more, not for ${moreMib}.`,
    )
}
