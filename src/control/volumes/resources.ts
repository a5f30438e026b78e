/** What the operations of volumes speak of. */
import { type Static, Type } from 'typebox'
import { dateTime, double, int32, int64, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

const volume = {
  id: uuid({ description: 'Id of the volume, which paths name it by.' }),
  tenant_id: uuid({ description: 'The project that it belongs to.' }),
  name: text({ description: 'Name of the volume; unique in the project.', examples: ['data'] }),
  size_mib: int32({ description: 'Size in MiB, as programs in the VM see it.', examples: [10_240] }),
  pool_name: text({
    default: '',
    description: 'Kind of storage pool that it is in; empty: the default one of its host.',
    examples: [''],
  }),
  created_at: dateTime({ description: 'When it was created.' }),
  updated_at: dateTime({ description: 'When it last changed.' }),
}
export const accessMode = (options = {}) =>
  int32({
    minimum: 0,
    maximum: 1,
    description: '0: read-write, for one VM at a time; 1: read-only, for any number of VMs.',
    examples: [0],
    ...options,
  })
const mountPoint = () => text({ description: 'Directory in the VM where it is mounted.', examples: ['/data'] })

/** What we add: every volume says how it is. */
const state = {
  status: Type.Optional(
    text({
      description:
        '`pending` (gets its place when it is first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`; as attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`.',
      examples: ['ready'],
    }),
  ),
  message: Type.Optional(
    nullable(
      text({
        description: 'What went wrong last; null: nothing.',
        examples: [null, 'The storage pool of the host is full.'],
      }),
    ),
  ),
}
export const Volume = resource(
  'Volume',
  { ...volume, ...state },
  { description: 'A disk that outlives the VMs that have it.' },
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
  { description: 'A volume as an app has it.' },
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
          app_id: uuid({ description: 'The app that has it.' }),
          app_name: text({ description: 'Name of that app.', examples: ['web'] }),
          mount_point: mountPoint(),
        },
        { description: 'One app that has a volume.' },
      ),
      { description: 'The apps that have it; empty: none.' },
    ),
  },
  { description: 'A volume and the apps that have it.' },
)
export type VolumeWithAttachments = Static<typeof VolumeWithAttachments>

export const VolumeSnapshot = resource(
  'VolumeSnapshot',
  {
    id: uuid({ description: 'Id of the snapshot, which paths name it by.' }),
    tenant_id: uuid({ description: 'The project that it belongs to.' }),
    volume_id: uuid({ description: 'The volume that it was taken of.' }),
    name: text({ description: 'Name of the snapshot; unique for its volume.', examples: ['before-upgrade'] }),
    created_at: dateTime({ description: 'When it was asked for.' }),
    status: Type.Optional(
      text({ description: '`creating`, `ready` or `failed`; only `ready` ones can be used.', examples: ['ready'] }),
    ),
    size_bytes: Type.Optional(
      int64({ description: 'Room that it takes beside its volume; 0 until it is taken.', examples: [52_428_800] }),
    ),
    pause_ms: Type.Optional(
      nullable(
        double({
          description: 'Milliseconds for which the VM that had the volume stood still; null: no VM had it.',
          examples: [12.5],
        }),
      ),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why it failed; null: it did not.',
          examples: [null, 'The storage pool of the host is full.'],
        }),
      ),
    ),
  },
  { description: 'The content of a volume at one moment, under a name.' },
)
export type VolumeSnapshot = Static<typeof VolumeSnapshot>

export const VolumeUsage = resource(
  'VolumeUsage',
  {
    volume_id: uuid({ description: 'The volume.' }),
    size_bytes: int64({ description: 'Size of the volume.', examples: [10_737_418_240] }),
    used_bytes: int64({ description: 'Bytes that its files take.', examples: [1_288_490_188] }),
    snapshot_bytes: int64({ description: 'Bytes that its snapshots take beside it.', examples: [52_428_800] }),
    measured_at: nullable(dateTime({ description: 'When its host measured it; null before the first measurement.' })),
  },
  { description: 'How much of a volume is used, as its host measured last.' },
)
export type VolumeUsage = Static<typeof VolumeUsage>

export const VolumeSchedule = resource(
  'VolumeSchedule',
  {
    every_minutes: int32({
      description: 'Minutes from one snapshot to the next, 15 to 527040; 0: none are taken.',
      examples: [1440],
    }),
    keep: int32({ description: 'How many of them are kept, 1 to 100; older ones are deleted.', examples: [7] }),
  },
  { description: 'When snapshots of a volume are taken without being asked for.' },
)

export const DetachedVolume = resource(
  'DetachedVolume',
  {
    status: text({ description: '`detached`, or `detaching` while a VM still has it.', examples: ['detached'] }),
    message: nullable(
      text({
        description: 'What happens in the VM meanwhile; null: no VM has it.',
        examples: [null, 'The VM unmounts /data first.'],
      }),
    ),
  },
  { description: 'A volume that an app no longer has.' },
)

const moveStates = [
  ...(['preparing', 'copying', 'copied', 'complete', 'clearing', 'cancelling', 'dropping'] as const),
  ...(['completed', 'cancelled', 'failed', 'none'] as const),
] as const

export const VolumeMoveStatus = resource(
  'VolumeMoveStatus',
  {
    status: oneOf(moveStates, {
      description: '`completed`, `cancelled` and `failed` are ends; `none`: it never moved; all others: it moves.',
      examples: ['copying'],
    }),
    move_id: Type.Optional(uuid({ description: 'The move. Absent, like its other members, with `none`.' })),
    source_host: Type.Optional(uuid({ description: 'Id of the host that it leaves.' })),
    target_host: Type.Optional(uuid({ description: 'Id of the host that it goes to.' })),
    percent: Type.Optional(double({ description: 'How much is copied, 0 to 100.', examples: [62.5] })),
    transferred_bytes: Type.Optional(int64({ description: 'Bytes copied so far.', examples: [6_710_886_400] })),
    total_bytes: Type.Optional(
      int64({ description: 'Bytes to copy; 0 while that is not known.', examples: [10_737_418_240] }),
    ),
    error: Type.Optional(
      nullable(text({ description: 'Why it failed; null: it did not.', examples: [null, 'The target host is down.'] })),
    ),
    started_at: Type.Optional(dateTime({ description: 'When it was asked for.' })),
    ended_at: Type.Optional(
      nullable(
        dateTime({ description: 'When it ended; null while it runs.', examples: [null, '2026-03-14T09:27:11.002Z'] }),
      ),
    ),
    host_id: nullable(uuid({ description: 'The host that has the volume now; null: none yet.' })),
    obstacle: nullable(
      text({
        description: 'Why it cannot be moved now; null: it can.',
        examples: [null, 'A VM has the volume. Detach it first.'],
      }),
    ),
  },
  { description: 'The newest move of a volume to another host, and whether it could be moved now.' },
)
export type VolumeMoveStatus = Static<typeof VolumeMoveStatus>
