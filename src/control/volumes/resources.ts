/** Request and response schemas of the volume operations. */
import { type Static, Type } from 'typebox'
import { dateTime, double, int32, int64, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

const volume = {
  id: uuid({ description: 'Id of the volume, used in paths.' }),
  tenant_id: uuid({ description: 'Id of the project that owns the volume.' }),
  name: text({ description: 'Name of the volume; unique in the project.', examples: ['data'] }),
  size_mib: int32({ description: 'Size in MiB, as programs in the VM see it.', examples: [10_240] }),
  pool_name: text({
    default: '',
    description: 'Kind of storage pool that stores the volume; empty for the default pool of its host.',
    examples: [''],
  }),
  created_at: dateTime({ description: 'When the volume was created.' }),
  updated_at: dateTime({ description: 'When the volume last changed.' }),
}
export const accessMode = (options = {}) =>
  int32({
    minimum: 0,
    maximum: 1,
    description: 'Access mode. 0: read-write, for one VM at a time. 1: read-only, for any number of VMs.',
    examples: [0],
    ...options,
  })
const mountPoint = () => text({ description: 'Directory in the VM where the volume is mounted.', examples: ['/data'] })

/** The status of a volume, a field that Mote adds to the API contract (docs/contract.md). */
const state = {
  status: Type.Optional(
    text({
      description:
        'Status of the volume: `pending` (it is placed on a host when first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`. For a volume that is attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`.',
      examples: ['ready'],
    }),
  ),
  message: Type.Optional(
    nullable(
      text({
        description: 'Last error of the volume; null if there was none.',
        examples: [null, 'The storage pool of the host is full.'],
      }),
    ),
  ),
}
export const Volume = resource(
  'Volume',
  { ...volume, ...state },
  { description: 'A disk that exists independently of the VMs that it is attached to.' },
)
export type Volume = Static<typeof Volume>

export const AttachedVolume = resource(
  'AttachedVolume',
  {
    ...volume,
    ...state,
    mount_point: mountPoint(),
    access_mode: accessMode(),
  },
  { description: 'A volume that is attached to an app.' },
)
export type AttachedVolume = Static<typeof AttachedVolume>

export const VolumeWithAttachments = resource(
  'VolumeWithAttachments',
  {
    ...volume,
    ...state,
    attachments: list(
      resource(
        'VolumeAttachment',
        {
          access_mode: accessMode(),
          app_id: uuid({ description: 'Id of the app.' }),
          app_name: text({ description: 'Name of the app.', examples: ['web'] }),
          mount_point: mountPoint(),
        },
        { description: 'An app that a volume is attached to.' },
      ),
      { description: 'The apps that the volume is attached to; empty if none.' },
    ),
  },
  { description: 'A volume and the apps that it is attached to.' },
)
export type VolumeWithAttachments = Static<typeof VolumeWithAttachments>

export const VolumeSnapshot = resource(
  'VolumeSnapshot',
  {
    id: uuid({ description: 'Id of the snapshot, used in paths.' }),
    tenant_id: uuid({ description: 'Id of the project that owns the volume.' }),
    volume_id: uuid({ description: 'Id of the volume that the snapshot was taken of.' }),
    name: text({ description: 'Name of the snapshot; unique for the volume.', examples: ['before-upgrade'] }),
    created_at: dateTime({ description: 'When the snapshot was requested.' }),
    status: Type.Optional(
      text({
        description: 'Status of the snapshot: `creating`, `ready` or `failed`. Only `ready` snapshots can be used.',
        examples: ['ready'],
      }),
    ),
    size_bytes: Type.Optional(
      int64({
        description: 'Space in bytes that the snapshot takes in addition to the volume; 0 until the snapshot is taken.',
        examples: [52_428_800],
      }),
    ),
    pause_ms: Type.Optional(
      nullable(
        double({
          description: 'Milliseconds for which the VM with the volume was paused; null if no VM used it.',
          examples: [12.5],
        }),
      ),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the snapshot failed; null if it did not fail.',
          examples: [null, 'The storage pool of the host is full.'],
        }),
      ),
    ),
  },
  { description: "A named copy of a volume's content at one point in time." },
)
export type VolumeSnapshot = Static<typeof VolumeSnapshot>

export const VolumeUsage = resource(
  'VolumeUsage',
  {
    volume_id: uuid({ description: 'Id of the volume.' }),
    size_bytes: int64({ description: 'Size of the volume in bytes.', examples: [10_737_418_240] }),
    used_bytes: int64({ description: 'Space in bytes that the files in the volume take.', examples: [1_288_490_188] }),
    snapshot_bytes: int64({
      description: 'Space in bytes that the snapshots of the volume take in addition to `used_bytes`.',
      examples: [52_428_800],
    }),
    measured_at: nullable(
      dateTime({ description: 'When the host measured the usage; null before the first measurement.' }),
    ),
  },
  { description: 'Usage of a volume, as its host last measured it.' },
)
export type VolumeUsage = Static<typeof VolumeUsage>

export const VolumeSchedule = resource(
  'VolumeSchedule',
  {
    every_minutes: int32({
      description: 'Minutes from one snapshot to the next, 15 to 527040; 0 if no snapshots are taken.',
      examples: [1440],
    }),
    keep: int32({
      description: 'Number of scheduled snapshots to retain, 1 to 100; older ones are deleted.',
      examples: [7],
    }),
  },
  { description: 'Schedule of automatic snapshots of a volume.' },
)

export const DetachedVolume = resource(
  'DetachedVolume',
  {
    status: text({
      description: '`detached`, or `detaching` while a VM still uses the volume.',
      examples: ['detached'],
    }),
    message: nullable(
      text({
        description:
          'What happens in the VM until the volume is detached, as text for users; null if no VM uses the volume.',
        examples: [null, 'The VM unmounts /data first.'],
      }),
    ),
  },
  { description: 'A volume that was detached from an app.' },
)

const moveStates = [
  ...(['preparing', 'copying', 'copied', 'complete', 'clearing', 'cancelling', 'dropping'] as const),
  ...(['completed', 'cancelled', 'failed', 'none'] as const),
] as const

export const VolumeMoveStatus = resource(
  'VolumeMoveStatus',
  {
    status: oneOf(moveStates, {
      description:
        'Status of the move. `completed`, `cancelled` and `failed` are final. `none`: the volume has never been moved. All others: the move is in progress.',
      examples: ['copying'],
    }),
    move_id: Type.Optional(
      uuid({ description: 'Id of the move. If `status` is `none`, this and the other fields of the move are absent.' }),
    ),
    source_host: Type.Optional(uuid({ description: 'Id of the host that the volume leaves.' })),
    target_host: Type.Optional(uuid({ description: 'Id of the host that the volume moves to.' })),
    percent: Type.Optional(double({ description: 'Progress of the copy in percent, 0 to 100.', examples: [62.5] })),
    transferred_bytes: Type.Optional(int64({ description: 'Bytes copied so far.', examples: [6_710_886_400] })),
    total_bytes: Type.Optional(int64({ description: 'Bytes to copy; 0 while unknown.', examples: [10_737_418_240] })),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the move failed; null if it did not fail.',
          examples: [null, 'The target host is down.'],
        }),
      ),
    ),
    started_at: Type.Optional(dateTime({ description: 'When the move was requested.' })),
    ended_at: Type.Optional(
      nullable(
        dateTime({
          description: 'When the move ended; null while it is in progress.',
          examples: [null, '2026-03-14T09:27:11.002Z'],
        }),
      ),
    ),
    host_id: nullable(
      uuid({ description: 'Id of the host that stores the volume now; null if the volume has no host yet.' }),
    ),
    obstacle: nullable(
      text({
        description: 'Why the volume cannot be moved now; null if it can be moved.',
        examples: [null, 'Volume data is attached to a VM. Move the VM, and the volume moves with it.'],
      }),
    ),
  },
  { description: 'The most recent move of a volume to another host, and whether the volume can be moved now.' },
)
export type VolumeMoveStatus = Static<typeof VolumeMoveStatus>
