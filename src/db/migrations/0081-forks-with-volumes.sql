-- Volumes that are being made of what a snapshot has: it stays as long.
CREATE INDEX volume_from_snapshot ON volume (from_snapshot_id) WHERE from_snapshot_id IS NOT NULL;
