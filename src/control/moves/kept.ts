/**
 * SQL, of aliases `s` (vm_snapshot) and `o` (volume): the snapshot has a copy of the volume on the volume's host, whichever VM
 * had it then, or its guest reads the volume, which nobody has written to since. A VM goes back to it, or a fork begins with it,
 * there, where the memory is: it cannot go along. One that an app sleeps in has no copies, and holds nothing: without it the
 * app boots.
 */
export const keptBySnapshot = `(o.bound AND s.host_id = o.host_id AND s.want = 'present' AND s.state = 'ready' AND s.kind = 'user'
  AND (s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'copied', true))
    OR s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'readOnly', true, 'generation', o.attach_generation))))`

/** Why a volume stays; for people. */
export const keptReason = (kept: { readonly name: string; readonly appName: string; readonly volumeName: string }) =>
  `Snapshot ${kept.name} of a VM of ${kept.appName} has what volume ${kept.volumeName} held, and could not go along. Delete it first.`
