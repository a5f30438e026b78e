/** Returns a VM and its volumes to the state of a snapshot (docs/decisions/0048-vm-snapshots-with-volumes.md). */
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { ApiError, invalidState } from '../http/errors.ts'
import { disksOf, pokeVm, restoreVm, type Snapshot } from '../vms/index.ts'
import { createVolumeSnapshot } from '../volumes/index.ts'

/**
 * Requests that the snapshot's VM is restored. The current content of its volumes is first saved as volume snapshots.
 * The caller has locked the snapshot (`holdSnapshot`), and has checked that it is ready and on the VM's host.
 * @throws ApiError 409 `invalid_state`, `operation_in_progress`
 */
export async function requestRestore(tx: Tx, snapshot: Snapshot): Promise<void> {
  await assertVolumesThere(tx, snapshot)
  for (const { volumeId, copied } of snapshot.disks.toSorted((a, b) => (a.volumeId < b.volumeId ? -1 : 1))) {
    const name = `before-restore-${newId().slice(-8)}`
    if (copied) await createVolumeSnapshot(tx, volumeId, { name, kind: 'restore' })
  }
  await restoreVm(tx, snapshot.vmId, snapshot.id)
  await pokeVm(tx, snapshot.vmId)
}

export const movingError = ({ name }: Pick<Snapshot, 'name'>) =>
  new ApiError('operation_in_progress', `Snapshot ${name} is moving to another host. Wait until the move has ended.`)

/**
 * Checks that the snapshot can be used. @throws ApiError 409 `invalid_state` if it is not ready,
 * `operation_in_progress` while it moves
 */
export function assertReady(snapshot: Pick<Snapshot, 'name' | 'state' | 'error' | 'movingTo'>): void {
  if (snapshot.movingTo !== null) throw movingError(snapshot)
  if (snapshot.state !== 'ready')
    throw invalidState(`Snapshot ${snapshot.name} is ${snapshot.state}${snapshot.error ? `: ${snapshot.error}` : ''}.`)
}

/**
 * Checks that the VM has the same volumes as in the snapshot: the guest has them mounted, and can resume only with
 * them. @throws ApiError 409 `invalid_state`
 */
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
    `The VM has other volumes than in snapshot ${name} (${had}), or a volume that it only reads has changed. Attach the same volumes first.`,
  )
}
