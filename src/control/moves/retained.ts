/**
 * SQL, of aliases `s` (vm_snapshot) and `o` (volume): the snapshot has a copy of the volume on the volume's host, whichever VM
 * had it then, or its guest reads the volume, which nobody has written to since. A VM goes back to it, or a fork begins with it,
 * where the memory is: both go together. One that an app sleeps in has no copies, and holds nothing: without it the
 * app boots.
 */
export const retainedBySnapshot = `(o.bound AND s.host_id = o.host_id AND s.want = 'present' AND s.state = 'ready' AND s.kind = 'user'
  AND (s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'copied', true))
    OR s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'readOnly', true, 'generation', o.attach_generation))))`

/**
 * SQL: the volume's snapshots and what snapshots of VMs have of it, which go with it, the oldest of both first: a volume only grows,
 * and its new host gets each as what differs from the one before.
 */
export const goingWith = (volumeId: string) => `coalesce((SELECT jsonb_agg(n.id ORDER BY n.id) FROM (
  SELECT n.id FROM volume_snapshot n WHERE n.volume_id = ${volumeId} AND n.want = 'present' AND n.state = 'ready'
  UNION ALL
  SELECT n.id FROM vm_snapshot n JOIN volume o2 ON o2.id = ${volumeId}
  WHERE n.want = 'present' AND n.state = 'ready' AND n.kind = 'user' AND n.host_id = o2.host_id
    AND n.disks @> jsonb_build_array(jsonb_build_object('volumeId', o2.id::text, 'copied', true))) n), '[]'::jsonb)`

/** SQL, of aliases `s` (vm_snapshot) and `h` (its host): some other host goes on with what it was made by. */
export const takenElsewhere = `EXISTS (SELECT FROM host t
  WHERE t.id <> h.id AND NOT t.cordoned AND t.lost_at IS NULL AND t.removed_at IS NULL
    AND t.hypervisors @> jsonb_build_array(jsonb_build_object('snapshotKind', s.made_by)))`

/** SQL, of alias `s` (vm_snapshot): hosts that have yet to remove what an earlier move left there. */
export const leftoversOf = `(SELECT coalesce(jsonb_agg(CASE x.state WHEN 'clearing' THEN x.source_host_id ELSE x.target_host_id END), '[]'::jsonb)
  FROM vm_snapshot_move x WHERE x.snapshot_id = s.id AND x.state IN ('clearing', 'dropping'))`
