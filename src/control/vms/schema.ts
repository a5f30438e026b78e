import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  bool,
  fileName,
  freeForm,
  int32,
  labelName,
  list,
  maybe,
  rawText,
  resource,
  text,
  uint32,
} from '../http/types.ts'

const shared = { auth: 'bearer', project: 'selected', answer: 'free' } as const
const base = '/v1/apps/{app_name}/deployments/{job_id}'
const ofJob = { app_name: text(), job_id: text({ description: 'Job id, or uuid of the deployment.' }) }
const params = Type.Object(ofJob)
const ofSnapshot = Type.Object({ ...ofJob, snapshot_name: text() })

const snapshots = { ...shared, tag: 'VM snapshots' } as const
const volumes = { ...shared, tag: 'Runtime volumes' } as const
const migration = { ...shared, tag: 'Migration' } as const
const balloon = { ...shared, tag: 'Balloon' } as const

export const vmOperations = operations({
  createVmSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: `${base}/snapshot`,
    summary: 'Saves memory and disks of the VM under a name',
    ...snapshots,
    scope: 'deploy',
    params,
    body: resource('CreateVmSnapshotRequest', { snapshot_name: fileName() }),
  },
  listVmSnapshots: {
    method: 'GET',
    path: `${base}/snapshots`,
    summary: 'Snapshots of the VM, newest first',
    ...snapshots,
    scope: 'read',
    params,
    list: { order: ['-created_at', 'name'], filters: ['name', 'status'] },
    items: [
      {
        id: 'getVmSnapshot',
        path: `${base}/snapshot/{snapshot_name}`,
        by: 'name',
        summary: 'One snapshot of the VM',
        waits: 'status',
      },
    ],
  },
  restoreVmSnapshot: {
    method: 'POST',
    path: `${base}/snapshot/{snapshot_name}/restore`,
    summary: 'Puts the VM back to where the snapshot was taken',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
  },
  deleteVmSnapshot: {
    method: 'DELETE',
    path: `${base}/snapshot/{snapshot_name}`,
    summary: 'Deletes a snapshot of the VM',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
    fails: [409],
  },
  forkVmSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: `${base}/snapshot/{snapshot_name}/fork`,
    summary: 'Starts clones from a snapshot, as a new app; each with an identity of its own',
    ...snapshots,
    scope: 'deploy',
    params: ofSnapshot,
    body: resource('ForkVmSnapshotRequest', {
      app_name: labelName(),
      replicas: maybe(uint32({ description: 'How many VMs, 1 to 20.' })),
    }),
    addition: true,
  },
  execInVm: {
    method: 'POST',
    path: `${base}/exec`,
    summary: 'Runs a program in the VM, without a shell, and answers what it wrote',
    ...shared,
    tag: 'Deployments',
    scope: 'deploy',
    params,
    body: resource('ExecRequest', {
      command: list(rawText({ maxLength: 65_536 }), { minItems: 1, maxItems: 256 }),
      timeout_seconds: maybe(uint32({ minimum: 1, maximum: 60 })),
    }),
    answer: resource('ExecAnswer', { exit_code: int32(), stdout: text(), stderr: text(), truncated: bool() }),
    addition: true,
  },
  attachRuntimeVolume: {
    method: 'POST',
    path: `${base}/volumes/attach`,
    summary: 'Attaches a volume to the running VM',
    ...volumes,
    scope: 'write',
    params,
    body: resource('AttachRuntimeVolumeRequest', {
      volume_id: text({ maxLength: 100 }),
      mount_point: text({ minLength: 1, maxLength: 4096 }),
      read_only: Type.Optional(bool({ default: false })),
    }),
  },
  detachRuntimeVolume: {
    method: 'POST',
    path: `${base}/volumes/detach`,
    summary: 'Detaches a volume from the running VM',
    ...volumes,
    scope: 'write',
    params,
    body: freeForm({ description: 'An object with `volume_id` or `mount_point`.' }),
    bodyRequired: true,
  },
  startMigration: {
    method: 'POST',
    path: `${base}/migration/start`,
    summary: 'Moves the VM to another host',
    ...migration,
    scope: 'admin',
    params,
    body: resource('StartMigrationRequest', {
      target_host: text({ minLength: 1, maxLength: 255, description: 'Id or name of a registered host.' }),
      target_uri: text({ maxLength: 1024, description: 'May be empty: the host itself knows where it listens.' }),
    }),
  },
  cancelMigration: {
    method: 'POST',
    path: `${base}/migration/cancel`,
    summary: 'Gives a migration up; the VM stays where it was',
    ...migration,
    scope: 'admin',
    params,
  },
  getMigration: {
    method: 'GET',
    path: `${base}/migration/status`,
    summary: 'How far the migration is; `none` when there is none',
    ...migration,
    scope: 'read',
    params,
  },
  getBalloon: {
    method: 'GET',
    path: `${base}/balloon`,
    summary: 'Memory the VM should have and has',
    ...balloon,
    scope: 'read',
    params,
    fails: [409],
  },
  setBalloon: {
    method: 'POST',
    path: `${base}/balloon`,
    summary: 'Changes the memory the VM should have',
    ...balloon,
    scope: 'deploy',
    params,
    body: resource('SetBalloonRequest', { target_memory_mib: uint32() }),
  },
})
