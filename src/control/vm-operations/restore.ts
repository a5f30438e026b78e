/** A VM goes back to a snapshot of it, with its volumes. docs/decisions/0048-vm-snapshots-with-volumes.md */
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { ApiError, invalidState } from '../http/errors.ts'
import { disksOf, pokeVm, restoreVm, type Snapshot } from '../vms/index.ts'
import { createVolumeSnapshot } from '../volumes/index.ts'

/**
 * Wishes the VM of the snapshot back to it, once what its volumes hold now is kept: it waits for that. The caller holds the snapshot
 * (`holdSnapshot`), and has seen that it is ready, and on the host of its VM.
 * @throws ApiError 409 `invalid_state`, `operation_in_progress`
 */
export async function putBack(tx: Tx, snapshot: Snapshot): Promise<void> {
  await assertVolumesThere(tx, snapshot)
  for (const { volumeId, copied } of snapshot.disks.toSorted((a, b) => (a.volumeId < b.volumeId ? -1 : 1))) {
    const name = `before-restore-${newId().slice(-8)}`
    if (copied) await createVolumeSnapshot(tx, volumeId, { name, kind: 'restore' })
  }
  await restoreVm(tx, snapshot.vmId, snapshot.id)
  await pokeVm(tx, snapshot.vmId)
}

export const onItsWay = ({ name }: Pick<Snapshot, 'name'>) =>
  new ApiError('operation_in_progress', `Snapshot ${name} is on its way to another host. Wait until it is there.`)

/** @throws ApiError 409 `invalid_state` when there is nothing to go on from (yet), `operation_in_progress` while it moves */
export function assertReady(snapshot: Pick<Snapshot, 'name' | 'state' | 'error' | 'movingTo'>): void {
  if (snapshot.movingTo !== null) throw onItsWay(snapshot)
  if (snapshot.state !== 'ready')
    throw invalidState(`Snapshot ${snapshot.name} is ${snapshot.state}${snapshot.error ? `: ${snapshot.error}` : ''}.`)
}

/** The guest of the snapshot has them mounted: it can only go on with these. @throws ApiError 409 `invalid_state` */
async function assertVolumesThere(tx: Tx, { name, vmId, disks }: Snapshot): Promise<void> {
  if (disks.length === 0) return
  const now = await disksOf(tx, vmId)
  const same = disks.every(then =>
    now.some(
      disk =>
        disk.volumeId === then.volumeId &&
        disk.mountPoint === then.mountPoint &&
        disk.readOnly === then.readOnly &&
        (!then.readOnly || disk.generation === then.generation),
    ),
  )
  if (same && now.length === disks.length) return
  const had = disks.map(disk => `${disk.volumeId} at ${disk.mountPoint}`).join(', ')
  throw invalidState(
    `The VM has other volumes than in snapshot ${name} (${had}), or what it only reads was changed. Attach the same ones first.`,
  )
}
