-- Volumes that the VM had when its snapshot was taken, as its host says (SnapshotDisk of the contract).
ALTER TABLE vm_snapshot ADD COLUMN disks jsonb NOT NULL DEFAULT '[]';
-- `restore`: what a volume held before its VM was put back to a snapshot, which waits for it.
ALTER TABLE volume_snapshot DROP CONSTRAINT volume_snapshot_kind_check;
ALTER TABLE volume_snapshot ADD CONSTRAINT volume_snapshot_kind_check CHECK (kind IN ('user', 'schedule', 'restore'));
