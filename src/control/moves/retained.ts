/**
 * SQL condition on aliases `s` (vm_snapshot) and `o` (volume): the snapshot has a copy of the volume on the volume's
 * host, or its guest reads the volume and the volume has not been written to since. Restores and forks need memory and
 * volume on the same host, so both move together. Sleep snapshots are excluded: they have no copies, and an app without
 * its sleep snapshot boots.
 */
export const retainedBySnapshot = `(o.bound AND s.host_id = o.host_id AND s.want = 'present' AND s.state = 'ready' AND s.kind = 'user'
  AND (s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'copied', true))
    OR s.disks @> jsonb_build_array(jsonb_build_object('volumeId', o.id::text, 'readOnly', true, 'generation', o.attach_generation))))`

/**
 * SQL: ids of the snapshots that move with the volume, oldest first: snapshots of the volume, and VM snapshots with
 * copies of it. The order matters, because the target receives each snapshot as a difference from the previous one.
 */
export const goingWith = (volumeId: string) => `coalesce((SELECT jsonb_agg(n.id ORDER BY n.id) FROM (
  SELECT n.id FROM volume_snapshot n WHERE n.volume_id = ${volumeId} AND n.want = 'present' AND n.state = 'ready'
  UNION ALL
  SELECT n.id FROM vm_snapshot n JOIN volume o2 ON o2.id = ${volumeId}
  WHERE n.want = 'present' AND n.state = 'ready' AND n.kind = 'user' AND n.host_id = o2.host_id
    AND n.disks @> jsonb_build_array(jsonb_build_object('volumeId', o2.id::text, 'copied', true))) n), '[]'::jsonb)`

/** SQL condition on aliases `s` (vm_snapshot) and `h` (its host): another host can load the snapshot. */
export const takenElsewhere = `EXISTS (SELECT FROM host t
  WHERE t.id <> h.id AND NOT t.cordoned AND t.lost_at IS NULL AND t.removed_at IS NULL
    AND t.hypervisors @> jsonb_build_array(jsonb_build_object('snapshotKind', s.made_by)))`

/** SQL, with alias `s` (vm_snapshot): ids of hosts that have not yet removed the copy left by an earlier move. */
export const leftoversOf = `(SELECT coalesce(jsonb_agg(CASE x.state WHEN 'clearing' THEN x.source_host_id ELSE x.target_host_id END), '[]'::jsonb)
  FROM vm_snapshot_move x WHERE x.snapshot_id = s.id AND x.state IN ('clearing', 'dropping'))`
