import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, list, text } from '../http/types.ts'
import {
  AttachRuntimeVolumeRequest,
  Balloon,
  CreateVmSnapshotRequest,
  DetachRuntimeVolumeRequest,
  ExecAnswer,
  ExecRequest,
  ForkVmSnapshotRequest,
  MigrationStatus,
  RuntimeVolumeAttached,
  RuntimeVolumeDetached,
  SetBalloonRequest,
  StartMigrationRequest,
  VmFork,
  VmSnapshot,
  VmSnapshotRestored,
} from './resources.ts'

export type { DetachRuntimeVolumeRequest, MigrationStatus } from './resources.ts'

const shared = { auth: 'bearer', project: 'selected' } as const
const base = '/v1/apps/{app_name}/deployments/{job_id}'
const ofJob = {
  app_name: text({ description: 'Name of the app.', examples: ['web'] }),
  job_id: text({ description: 'Job id, or UUID of the deployment.', examples: ['job-3f6d0c4f2a1097e0'] }),
}
const params = Type.Object(ofJob)
const ofSnapshot = Type.Object({
  ...ofJob,
  snapshot_name: text({ description: 'Name of the snapshot.', examples: ['before-upgrade'] }),
})

const snapshots = { ...shared, tag: 'VM snapshots' } as const
const volumes = { ...shared, tag: 'Runtime volumes' } as const
const migration = { ...shared, tag: 'Migration' } as const
const balloon = { ...shared, tag: 'Balloon' } as const

export const vmOperations = operations({
  createVmSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: `${base}/snapshot`,
    summary: 'Take a snapshot of a VM',
    description:
      'Saves the memory and disks of the first VM of the deployment under a name, including its volumes if the hypervisor supports that. The VM is paused briefly. The response is sent before the snapshot is written: wait for `ready`.',
    ...snapshots,
    scope: 'deploy',
    params,
    body: CreateVmSnapshotRequest,
    answer: VmSnapshot,
  },
  listVmSnapshots: {
    method: 'GET',
    path: `${base}/snapshots`,
    summary: 'List the snapshots of a VM',
    description:
      'Returns the VM snapshots of the deployment, newest first. A deployment can have at most 20 snapshots.',
    ...snapshots,
    scope: 'read',
    params,
    list: { order: ['-created_at', 'name'], filters: ['name', 'status'] },
    answer: list(VmSnapshot),
    items: [
      {
        id: 'getVmSnapshot',
        path: `${base}/snapshot/{snapshot_name}`,
        by: 'name',
        summary: 'Get a snapshot of a VM',
        description:
          'Returns one snapshot of the deployment. With `wait=ready,failed` the response is delayed until the snapshot is written.',
        waits: 'status',
      },
    ],
  },
  restoreVmSnapshot: {
    method: 'POST',
    path: `${base}/snapshot/{snapshot_name}/restore`,
    summary: 'Restore a VM from a snapshot',
    description:
      'Restores the VM that the snapshot was taken of; changes since then are lost. The VM must still be on the host that stores the snapshot; otherwise fork the snapshot.',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
    answer: VmSnapshotRestored,
  },
  deleteVmSnapshot: {
    method: 'DELETE',
    path: `${base}/snapshot/{snapshot_name}`,
    summary: 'Delete a snapshot of a VM',
    description:
      'Deletes the snapshot and frees its space on the host. Fails with 409 while a fork or a restore needs the snapshot.',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
    fails: [409],
    answer: acknowledgement('deleted'),
  },
  forkVmSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: `${base}/snapshot/{snapshot_name}/fork`,
    summary: 'Start a new app from a snapshot',
    description:
      'Creates an app whose VMs resume from the snapshot, each with its own identity, addresses and volumes. An app that writes to volumes can have only one replica.',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
    body: ForkVmSnapshotRequest,
    addition: true,
    answer: VmFork,
  },
  execInVm: {
    method: 'POST',
    path: `${base}/exec`,
    summary: 'Run a program in a VM',
    description:
      'Runs a program in the first VM of the deployment, without a shell, and returns its output once it has ended. The audit log records the program without its arguments.',
    ...shared,
    tag: 'Deployments',
    scope: 'exec',
    params,
    body: ExecRequest,
    // Maximum size of the request body: twice the guest's limit of 128 KiB for a command line, because an escaped
    // character has twice as many bytes in JSON.
    maxBytes: 1 << 18,
    answer: ExecAnswer,
    addition: true,
  },
  attachRuntimeVolume: {
    method: 'POST',
    path: `${base}/volumes/attach`,
    summary: 'Attach a volume to running VMs',
    description:
      'Attaches a volume to the VMs of the deployment while they run. The volume stays attached until it is detached or the deployment ends; the next deployment does not get it.',
    ...volumes,
    scope: 'write',
    params,
    body: AttachRuntimeVolumeRequest,
    answer: RuntimeVolumeAttached,
  },
  detachRuntimeVolume: {
    method: 'POST',
    path: `${base}/volumes/detach`,
    summary: 'Detach a volume from running VMs',
    description:
      'Unmounts the volume in the VMs and detaches it from them. Detach volumes of the app itself with `DELETE /v1/apps/{app_id}/volumes/{volume_id}/detach`.',
    ...volumes,
    scope: 'write',
    params,
    body: DetachRuntimeVolumeRequest,
    bodyRequired: true,
    answer: RuntimeVolumeDetached,
  },
  startMigration: {
    method: 'POST',
    path: `${base}/migration/start`,
    summary: 'Move a VM to another host',
    description:
      'Starts moving the first VM of the deployment. The VM keeps its address and connections; a live move pauses it for some tens of milliseconds. Follow the move with `GET .../migration/status`.',
    ...migration,
    scope: 'admin',
    params,
    body: StartMigrationRequest,
    answer: MigrationStatus,
  },
  cancelMigration: {
    method: 'POST',
    path: `${base}/migration/cancel`,
    summary: 'Cancel the move of a VM',
    description:
      'Cancels a move that is still running; the VM continues on its host. Once the VM runs on the target host it is too late to cancel.',
    ...migration,
    scope: 'admin',
    params,
    answer: MigrationStatus,
  },
  getMigration: {
    method: 'GET',
    path: `${base}/migration/status`,
    summary: 'Get the move of a VM',
    description:
      'Returns the progress of the most recent move of a VM of the deployment. `status` is `none` if no VM was ever moved.',
    ...migration,
    scope: 'read',
    params,
    answer: MigrationStatus,
  },
  getBalloon: {
    method: 'GET',
    path: `${base}/balloon`,
    summary: 'Get the memory of a VM',
    description:
      'Returns the target and the current memory of the first VM of the deployment. Fails with 409 if the hypervisor cannot change memory.',
    ...balloon,
    scope: 'read',
    params,
    fails: [409],
    answer: Balloon,
  },
  setBalloon: {
    method: 'POST',
    path: `${base}/balloon`,
    summary: 'Change the memory of a VM',
    description:
      'Sets the target memory of the VMs of the deployment. The guest releases memory, or gets it back, within seconds. After a restart, a VM has its full memory again.',
    ...balloon,
    scope: 'deploy',
    params,
    body: SetBalloonRequest,
    answer: Balloon,
  },
})
