import { uniqueViolation } from '../../db/errors.ts'
import { prepareApp } from '../apps/index.ts'
import type { Deps } from '../deps.ts'
import { assertSizesFit, createDeployment } from '../deployments/index.ts'
import { ApiError, invalidField, invalidState, nameTaken, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import {
  createSnapshot,
  dropSnapshot,
  listSnapshots,
  lockSnapshot,
  newestMigration,
  type Snapshot,
  type vmOperations,
} from '../vms/index.ts'
import { putBack } from './restore.ts'
import { jobOf, lockedJob, placedVm, requireCapability, requireKeptVolumes } from './job.ts'

type SnapshotOperations = Pick<
  typeof vmOperations,
  'createVmSnapshot' | 'listVmSnapshots' | 'restoreVmSnapshot' | 'deleteVmSnapshot' | 'forkVmSnapshot'
>

/** Each is as large as the VM's memory and disk. */
const mostSnapshots = 20

export const snapshotHandlers = (deps: Deps): Handlers<SnapshotOperations> => ({
  createVmSnapshot: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const placed = await placedVm(deps, tx, d)
      requireCapability(placed, 'snapshot')
      await requireKeptVolumes(tx, placed)
      const name = call.body.snapshot_name
      const known = await listSnapshots(tx, d.id)
      if (known.length >= mostSnapshots)
        throw invalidState(`A deployment has at most ${mostSnapshots} snapshots. Delete one first.`)
      const { vm } = placed
      try {
        await createSnapshot(tx, { ...d, deploymentId: d.id, vmId: vm.id, hostId: vm.hostId, kind: 'user', name })
      } catch (cause) {
        if (uniqueViolation(cause, 'vm_snapshot_name')) throw nameTaken('snapshot of this deployment', name)
        throw cause
      }
      call.audit({ action: 'snapshot.create', resourceType: 'deployment', resourceId: d.id, details: { name } })
      const [made] = await listSnapshots(tx, d.id)
      if (!made) throw new Error('BUG: a snapshot that was just made is not there')
      return snapshotView(made)
    },
  },

  listVmSnapshots: {
    read: async call => (await listSnapshots(deps.db, (await jobOf(deps.db, call)).id)).map(snapshotView),
  },

  restoreVmSnapshot: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const snapshot = await lockSnapshot(tx, d.id, call.params.snapshot_name)
      if (!snapshot) throw notFound()
      assertReady(snapshot)
      const vm = d.vms.find(one => one.id === snapshot.vmId && one.want !== 'absent')
      if (!vm || vm.hostId !== snapshot.hostId)
        throw invalidState(
          'The VM of this snapshot is not on its host any more. Start a new one from it: POST .../fork',
        )
      const running = await newestMigration(tx, d.id)
      if (running && !running.endedAt)
        throw new ApiError('operation_in_progress', 'The VM is on its way to another host. Wait, or cancel that.')
      await putBack(tx, snapshot)
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
      const snapshot = await lockSnapshot(tx, d.id, call.params.snapshot_name)
      if (!snapshot) throw notFound()
      await dropSnapshot(tx, snapshot.id)
      call.audit({
        action: 'snapshot.delete',
        resourceType: 'deployment',
        resourceId: d.id,
        details: { name: snapshot.name },
      })
      return { status: 'deleted' }
    },
  },

  forkVmSnapshot: {
    write: async call => {
      const source = await jobOf(deps.db, call)
      const replicas = call.body.replicas ?? 1
      if (replicas < 1 || replicas > 20) throw invalidField('replicas', 'must be from 1 to 20')
      const sized = { desired_replicas: replicas, min_replicas: replicas, max_replicas: replicas }
      const create = prepareApp(deps, call.project, {
        name: call.body.app_name,
        git_url: '',
        port: source.port,
        ...sized,
      })
      return async tx => {
        const d = await lockedJob(tx, call)
        const snapshot = await lockSnapshot(tx, d.id, call.params.snapshot_name)
        if (!snapshot) throw notFound()
        assertReady(snapshot)
        assertNoDisks(snapshot)
        const app = await create(tx)
        await assertSizesFit(tx, call.project.id, app.id, snapshot, replicas)
        const { hypervisor, image, port, ipv6Prefix } = d
        const { vcpus, memoryMib, diskMib } = snapshot
        const made = await createDeployment(tx, {
          ...{ hypervisor, image, port, ipv6Prefix, vcpus, memoryMib, diskMib, replicas, triggerSource: 'api' },
          ...{ projectId: call.project.id, appId: app.id, traceparent: call.traceparent },
          from: { snapshotId: snapshot.id, hostId: snapshot.hostId, required: true },
        })
        call.audit({
          action: 'snapshot.fork',
          resourceType: 'app',
          resourceId: app.id,
          details: { name: snapshot.name, replicas },
        })
        return { app_name: app.name, deployment_id: made.id, job_id: made.jobId, vm_ids: made.vmIds, status: 'pending' }
      }
    },
  },
})

function assertReady(snapshot: Snapshot): void {
  if (snapshot.state !== 'ready')
    throw invalidState(`Snapshot ${snapshot.name} is ${snapshot.state}${snapshot.error ? `: ${snapshot.error}` : ''}.`)
}

/** @throws ApiError 409 `invalid_state`: which clone would have the volume? docs/decisions/0048 */
function assertNoDisks({ name, disks }: Snapshot): void {
  if (disks.length === 0) return
  throw invalidState(
    `Snapshot ${name} has volumes, which several VMs cannot share. Clone the volumes (POST /v1/volumes/{id}/clone) and attach them to an app of its own, or restore the snapshot.`,
  )
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
    ...{ volume_id: volumeId, mount_point: mountPoint, read_only: readOnly },
  })),
  created_at: s.createdAt.toISOString(),
})
