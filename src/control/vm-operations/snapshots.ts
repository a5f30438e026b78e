import type { Tx } from '../../db/db.ts'
import { uniqueViolation } from '../../db/errors.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError, invalidState, nameTaken, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import {
  createSnapshot,
  dropSnapshot,
  isBeingForked,
  isBeingRestored,
  listSnapshots,
  lockSnapshot,
  lockVm,
  type Snapshot,
  type vmOperations,
} from '../vms/index.ts'
import { newestMigration } from '../migrations/index.ts'
import { holdSnapshot } from './hold.ts'
import { jobOf, lockedJob, placedVm, requireCapability, requireRetainedVolumes } from './job.ts'
import { assertReady, movingError, requestRestore } from './restore.ts'

type SnapshotOperations = Pick<
  typeof vmOperations,
  'createVmSnapshot' | 'listVmSnapshots' | 'restoreVmSnapshot' | 'deleteVmSnapshot'
>

/** Maximum number of snapshots per deployment, because each is as large as the VM's memory and disk. */
const mostSnapshots = 20

export const snapshotHandlers = (deps: Deps): Handlers<SnapshotOperations> => ({
  createVmSnapshot: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const placed = await placedVm(deps, tx, d)
      requireCapability(placed, 'snapshot')
      await requireRetainedVolumes(tx, placed)
      const name = call.body.snapshot_name
      const known = await listSnapshots(tx, d.id)
      if (known.length >= mostSnapshots)
        throw invalidState(`A deployment can have at most ${mostSnapshots} snapshots. Delete one first.`)
      const { vm } = placed
      // The start of a migration locks the VM's row, too, so a snapshot cannot begin during a migration or the other
      // way round.
      await lockVm(tx, vm.id)
      const moving = await newestMigration(tx, d.id)
      if (moving && !moving.endedAt && moving.vmId === vm.id)
        throw new ApiError('operation_in_progress', 'The VM is moving to another host. Wait, or cancel the migration.')
      try {
        await createSnapshot(tx, { ...d, deploymentId: d.id, vmId: vm.id, hostId: vm.hostId, kind: 'user', name })
      } catch (cause) {
        if (uniqueViolation(cause, 'vm_snapshot_name')) throw nameTaken('snapshot of this deployment', name)
        throw cause
      }
      call.audit({ action: 'snapshot.create', resourceType: 'deployment', resourceId: d.id, details: { name } })
      const [made] = await listSnapshots(tx, d.id)
      if (!made) throw new Error('BUG: a snapshot that was just inserted does not exist')
      return snapshotView(made)
    },
  },

  listVmSnapshots: {
    read: async call => (await listSnapshots(deps.db, (await jobOf(deps.db, call)).id)).map(snapshotView),
  },

  restoreVmSnapshot: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const snapshot = await holdSnapshot(tx, d.id, call.params.snapshot_name)
      if (!snapshot) throw notFound()
      assertReady(snapshot)
      const vm = d.vms.find(one => one.id === snapshot.vmId && one.want !== 'absent')
      if (!vm || vm.hostId !== snapshot.hostId)
        throw invalidState(
          'The VM of this snapshot is no longer on its host. Start a new one from the snapshot: POST .../fork',
        )
      const running = await newestMigration(tx, d.id)
      if (running && !running.endedAt)
        throw new ApiError('operation_in_progress', 'The VM is moving to another host. Wait, or cancel the migration.')
      await requestRestore(tx, snapshot)
      call.audit({
        action: 'snapshot.restore',
        resourceType: 'deployment',
        resourceId: d.id,
        details: { name: snapshot.name },
      })
      return { status: 'restoring', snapshot_name: snapshot.name, vm_id: vm.id }
    },
  },

  deleteVmSnapshot: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const name = call.params.snapshot_name
      await deleteSnapshot(tx, d.id, name)
      call.audit({ action: 'snapshot.delete', resourceType: 'deployment', resourceId: d.id, details: { name } })
      return { status: 'deleted' as const }
    },
  },
})

/**
 * Marks a snapshot for deletion. @throws ApiError 404, 409 `operation_in_progress` while a fork or a restore needs the
 * snapshot
 */
export async function deleteSnapshot(tx: Tx, deploymentId: string, name: string): Promise<void> {
  const snapshot = await lockSnapshot(tx, deploymentId, name)
  if (!snapshot) throw notFound()
  // A snapshot that already belongs to its new host may be deleted before that host has reported the copy as complete,
  // because the host may never report it.
  if (snapshot.movingTo !== null && snapshot.movingTo !== snapshot.hostId) throw movingError(snapshot)
  if (await isBeingForked(tx, snapshot.id))
    throw new ApiError(
      'operation_in_progress',
      `Snapshot ${name} is being forked. Wait until the fork's VM has started, or delete the fork.`,
    )
  if (await isBeingRestored(tx, snapshot.id))
    throw new ApiError(
      'operation_in_progress',
      `The VM is being restored from snapshot ${name}. Wait until its host has received the restore.`,
    )
  await dropSnapshot(tx, snapshot.id)
}

const snapshotView = (s: Snapshot) => ({
  name: s.name,
  status: s.state,
  vm_id: s.vmId,
  host_id: s.hostId,
  size_bytes: s.sizeBytes,
  sha256: s.sha256,
  made_by: s.madeBy,
  pause_ms: s.pauseMs,
  error: s.error,
  volumes: s.disks.map(({ volumeId, mountPoint, readOnly }) => ({
    volume_id: volumeId,
    mount_point: mountPoint,
    read_only: readOnly,
  })),
  created_at: s.createdAt.toISOString(),
})
