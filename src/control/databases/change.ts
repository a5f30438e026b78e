import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { assertSizesFit } from '../deployments/index.ts'
import { invalidField } from '../http/errors.ts'
import { sizesOf } from './rules.ts'
import { dropSpares } from './spares.ts'
import type { Database } from './store.ts'
import * as branchStore from './branch-store.ts'
import * as store from './store.ts'
import { growDisks } from './volume-storage.ts'

/** A change of a database. Members that are null or absent remain unchanged. */
interface DatabaseChange {
  readonly vcpus?: number | null
  readonly memory_mib?: number | null
  readonly disk_mib?: number | null
  readonly suspended?: boolean | null
}

/**
 * Changes a locked database, and pokes the workflows of its branches.
 * @throws ApiError 400, 403 `plan_limit_exceeded`
 */
export async function changeDatabase(
  tx: Tx,
  now: Database,
  change: DatabaseChange,
  settings: Database['settings'] | undefined,
): Promise<{ readonly sizes: ReturnType<typeof sizesOf>; readonly want: Database['want'] }> {
  const { vcpus = null, memory_mib = null, disk_mib = null } = change
  const sizes = sizesOf({ vcpus, memory_mib, disk_mib }, now)
  if (sizes.diskMib < now.diskMib)
    throw invalidField('disk_mib', `must be at least ${now.diskMib}: disks can grow but not shrink`)
  const want = change.suspended == null ? now.want : change.suspended ? 'suspended' : 'running'
  const spares = await dropSpares(tx, now.id)
  const branches = (await store.branchIdsOf(tx, now.id)).filter(id => !spares.includes(id))
  const more = { vcpus: sizes.vcpus - now.vcpus, memoryMib: sizes.memoryMib - now.memoryMib }
  if (more.vcpus > 0 || more.memoryMib > 0) await assertSizesFit(tx, now.projectId, now.id, more, branches.length)
  const restarts = vcpus !== null || memory_mib !== null || settings !== undefined
  await store.change(tx, now.id, { ...sizes, settings: settings ?? now.settings, want, restarts })
  if (sizes.diskMib > now.diskMib) await growDisks(tx, branches, sizes.diskMib)
  await branchStore.tryAgain(tx, now.id)
  for (const id of branches) await poke(tx, 'database', id)
  return { sizes, want }
}
