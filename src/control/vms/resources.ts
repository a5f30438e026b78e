/** Request and response schemas of the operations on running VMs. */
import { type Static, Type } from 'typebox'
import {
  bool,
  dateTime,
  double,
  fileName,
  int32,
  int64,
  labelName,
  list,
  maybe,
  nullable,
  oneOf,
  rawText,
  resource,
  text,
  uint32,
  uuid,
} from '../http/types.ts'

const mountPoint = () => text({ description: 'Directory in the VM where the volume is mounted.', examples: ['/data'] })
const readOnly = () => bool({ description: 'Whether the VM may only read the volume.', examples: [false] })
const snapshotName = () =>
  fileName({ description: 'Name of the snapshot; unique in its deployment.', examples: ['before-upgrade'] })

export const VmSnapshot = resource(
  'VmSnapshot',
  {
    name: snapshotName(),
    status: oneOf(['creating', 'ready', 'failed'], {
      description: 'Status of the snapshot. Only `ready` snapshots can be restored or forked.',
      examples: ['ready'],
    }),
    vm_id: uuid({ description: 'Id of the VM that the snapshot was taken of.' }),
    host_id: uuid({ description: 'Id of the host that stores the snapshot.' }),
    size_bytes: int64({
      description: 'Size of the snapshot on its host in bytes; 0 until it is written.',
      examples: [268_435_456],
    }),
    sha256: nullable(
      text({
        description: "Hexadecimal digest of the snapshot's memory file; null until it is written.",
        examples: ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
      }),
    ),
    made_by: nullable(
      text({
        description: 'Hypervisor and version that are needed to load the snapshot; null until it is written.',
        examples: ['firecracker 1.13.1'],
      }),
    ),
    pause_ms: nullable(
      double({ description: 'Milliseconds for which the VM was paused; null before that.', examples: [41.5] }),
    ),
    error: nullable(
      text({
        description: 'Why the snapshot failed; null if it did not fail.',
        examples: [null, 'The host has no room for the memory of the VM.'],
      }),
    ),
    volumes: list(
      resource(
        'VmSnapshotVolume',
        {
          volume_id: uuid({ description: 'Id of the volume.' }),
          mount_point: mountPoint(),
          read_only: readOnly(),
        },
        { description: 'A volume that was attached to the VM when the snapshot was taken.' },
      ),
      { description: 'Volumes that were attached to the VM; the snapshot includes their content.' },
    ),
    created_at: dateTime({ description: 'When the snapshot was requested.' }),
  },
  { description: "A named copy of a VM's memory and disks at one point in time." },
)

export const VmSnapshotRestored = resource(
  'VmSnapshotRestored',
  {
    status: oneOf(['restoring'], { description: 'Always `restoring`: the host is restoring the VM.' }),
    snapshot_name: snapshotName(),
    vm_id: uuid({ description: 'Id of the VM that is restored.' }),
  },
  { description: 'A started restore of a VM.' },
)

export const CreateVmSnapshotRequest = resource('CreateVmSnapshotRequest', { snapshot_name: snapshotName() })

export const ForkVmSnapshotRequest = resource('ForkVmSnapshotRequest', {
  app_name: labelName({ description: 'Name of the new app; unique in the project.', examples: ['web-copy'] }),
  replicas: maybe(uint32({ description: 'Number of VMs of the new app, 1 to 20. Default: 1.', examples: [1] })),
})

export const VmFork = resource(
  'VmFork',
  {
    app_name: text({ description: 'Name of the new app.', examples: ['web-copy'] }),
    deployment_id: uuid({ description: 'UUID of the deployment of the new app.' }),
    job_id: text({ description: 'Short id of the deployment, as used in paths.', examples: ['job-3f6d0c4f2a1097e0'] }),
    vm_ids: list(uuid(), { description: 'Ids of the new VMs, one for each replica.' }),
    status: text({ description: 'Status of the deployment.', examples: ['pending'] }),
    volumes: list(
      resource(
        'VmForkVolume',
        {
          volume_id: uuid({ description: 'Id of the new volume.' }),
          name: text({ description: 'Name of the new volume.', examples: ['data-web-copy'] }),
          of: uuid({ description: 'Id of the volume that the new volume was cloned from.' }),
          mount_point: mountPoint(),
          read_only: readOnly(),
        },
        { description: 'A volume of the new app.' },
      ),
      { description: 'Volumes of the new app, with the content that they had in the snapshot.' },
    ),
  },
  { description: 'A new app whose VMs resume from a snapshot.' },
)

export const ExecRequest = resource('ExecRequest', {
  command: list(rawText({ maxLength: 65_536, examples: ['uname'] }), {
    minItems: 1,
    maxItems: 256,
    description: 'Program and arguments, run without a shell.',
    examples: [['uname', '-a']],
  }),
  timeout_seconds: maybe(
    uint32({
      minimum: 1,
      maximum: 60,
      description: 'Seconds after which the program is killed. Default: 10.',
      examples: [10],
    }),
  ),
})

export const ExecAnswer = resource(
  'ExecAnswer',
  {
    exit_code: int32({ description: 'Exit code of the program; 124 if it timed out.', examples: [0] }),
    stdout: text({ description: 'Standard output of the program, as UTF-8.', examples: ['Linux web 6.12.8\n'] }),
    stderr: text({ description: 'Standard error of the program, as UTF-8.', examples: [''] }),
    truncated: bool({ description: 'Whether the output was cut off because it was too long.', examples: [false] }),
  },
  { description: 'Output and exit code of a program that ran in the VM.' },
)

export const AttachRuntimeVolumeRequest = resource('AttachRuntimeVolumeRequest', {
  volume_id: text({
    maxLength: 100,
    description: 'Id of a volume of the project.',
    examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
  }),
  mount_point: text({
    minLength: 1,
    maxLength: 4096,
    description: 'Absolute path of the directory in the VM where the volume is mounted.',
    examples: ['/data'],
  }),
  read_only: Type.Optional(
    bool({ default: false, description: 'Whether the VM may only read the volume.', examples: [false] }),
  ),
})

const attached = {
  volume_id: uuid({ description: 'Id of the volume.' }),
  mount_point: mountPoint(),
}

export const RuntimeVolumeAttached = resource(
  'RuntimeVolumeAttached',
  {
    status: oneOf(['attaching'], { description: 'Always `attaching`: the hosts are attaching the volume.' }),
    ...attached,
    read_only: readOnly(),
  },
  { description: 'A volume that is being attached to the VMs of a deployment.' },
)

export const DetachRuntimeVolumeRequest = resource('DetachRuntimeVolumeRequest', {
  volume_id: Type.Optional(uuid({ description: 'Id of the volume.' })),
  mount_point: Type.Optional(text({ maxLength: 4096, description: 'Mount point of the volume.', examples: ['/data'] })),
})
export type DetachRuntimeVolumeRequest = Static<typeof DetachRuntimeVolumeRequest>

export const RuntimeVolumeDetached = resource(
  'RuntimeVolumeDetached',
  {
    status: oneOf(['detached', 'detaching'], {
      description: '`detached`, or `detaching` while a VM still uses the volume.',
    }),
    message: nullable(
      text({
        description:
          'What happens in the VM until the volume is detached, as text for users; null if no VM uses the volume.',
        examples: [null, 'The VM unmounts /data first.'],
      }),
    ),
    ...attached,
  },
  { description: 'A volume that is being detached from the VMs of a deployment.' },
)

export const StartMigrationRequest = resource('StartMigrationRequest', {
  target_host: text({
    minLength: 1,
    maxLength: 255,
    description: 'Id or name of the host to move to.',
    examples: ['host-b'],
  }),
  target_uri: text({
    maxLength: 1024,
    description: 'Address of the target host; if empty, the address that the host reports is used.',
    examples: [''],
  }),
})

const moveStates = [
  ...(['preparing', 'copying', 'switching', 'clearing'] as const),
  ...(['cancelling', 'completed', 'cancelled', 'failed', 'none'] as const),
] as const
const moveState = (description: string) => oneOf(moveStates, { description, examples: ['copying'] })

export const MigrationStatus = resource(
  'MigrationStatus',
  {
    status: moveState(
      'Status of the migration. `preparing`, `copying`, `switching` and `clearing` follow each other; `completed`, `cancelled` and `failed` are final; `none`: the VM has never been moved.',
    ),
    phase: moveState('Same as `status`.'),
    migration_id: Type.Optional(
      uuid({ description: 'Id of the migration. If `status` is `none`, this and all following fields are absent.' }),
    ),
    method: Type.Optional(
      oneOf(['live', 'stop-and-copy'], {
        description:
          '`live`: the VM runs while its memory is copied. `stop-and-copy`: the VM is stopped during the copy.',
      }),
    ),
    with_volumes: Type.Optional(
      bool({ description: 'Whether volumes of the VM move together with it.', examples: [false] }),
    ),
    vm_id: Type.Optional(uuid({ description: 'Id of the VM that moves.' })),
    source_host: Type.Optional(uuid({ description: 'Id of the host that the VM leaves.' })),
    target_host: Type.Optional(uuid({ description: 'Id of the host that the VM moves to.' })),
    percent: Type.Optional(double({ description: 'Progress of the copy in percent, 0 to 100.', examples: [62.5] })),
    transferred_bytes: Type.Optional(int64({ description: 'Bytes copied so far.', examples: [167_772_160] })),
    total_bytes: Type.Optional(int64({ description: 'Bytes to copy; 0 while unknown.', examples: [268_435_456] })),
    downtime_ms: Type.Optional(
      nullable(
        double({
          description: 'Milliseconds for which the VM was paused; null until the move is completed.',
          examples: [null, 38],
        }),
      ),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the migration failed; null if it did not fail.',
          examples: [null, 'The target host is down.'],
        }),
      ),
    ),
    started_at: Type.Optional(dateTime({ description: 'When the migration was requested.' })),
    ended_at: Type.Optional(
      nullable(
        dateTime({
          description: 'When the migration ended; null while it runs.',
          examples: [null, '2026-03-14T09:27:11.002Z'],
        }),
      ),
    ),
  },
  { description: 'The most recent move of a VM to another host.' },
)
export type MigrationStatus = Static<typeof MigrationStatus>

export const SetBalloonRequest = resource('SetBalloonRequest', {
  target_memory_mib: uint32({
    description: 'Memory in MiB that the VM should have, from `floor_mib` to `memory_mib`.',
    examples: [512],
  }),
})

export const Balloon = resource(
  'Balloon',
  {
    target_memory_mib: int64({ description: 'Target memory of the VM in MiB.', examples: [512] }),
    actual_memory_mib: int64({ description: 'Current memory of the VM in MiB, as last reported.', examples: [520] }),
    memory_mib: int64({ description: 'Memory of the VM at its start, and maximum, in MiB.', examples: [1024] }),
    floor_mib: int64({ description: 'Minimum memory of the VM in MiB.', examples: [128] }),
  },
  { description: 'Target and current memory of a VM.' },
)
