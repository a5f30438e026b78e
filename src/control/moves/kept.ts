/**
 * SQL, of aliases `s` (vm_snapshot) and `o` (volume): the snapshot has a copy of the volume on the volume's host, whichever VM
 * had it then, or its guest reads the volume, which nobody has written to since. A VM goes back to it, or a fork begins with it,
 * where the memory is: both go together. One that an app sleeps in has no copies, and holds nothing: without it the
 * app boots.
 */
export const keptBySnapshot = `(o.bound AND s.host_id = o.host_id AND s.want = 'present' AND s.state = 'ready' AND s.kind = 'user'
  AND (s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'copied', true))
    OR s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'readOnly', true, 'generation', o.attach_generation))))`

/** SQL: what snapshots of VMs have of the volume, as what goes with it, oldest first. */
export const copiesOf = (volumeId: string) => `coalesce((SELECT jsonb_agg(n.id ORDER BY n.id) FROM vm_snapshot n
  JOIN volume o2 ON o2.id = ${volumeId} WHERE n.want = 'present' AND n.state = 'ready' AND n.kind = 'user' AND n.host_id = o2.host_id
  AND n.disks @> jsonb_build_array(jsonb_build_object('volumeId', o2.id::text, 'copied', true))), '[]'::jsonb)`
