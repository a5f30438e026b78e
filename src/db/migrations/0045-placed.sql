-- When it got its place: a rollout that waits for room has not begun to take its time.
ALTER TABLE vm ADD COLUMN placed_at timestamptz;
UPDATE vm SET placed_at = created_at WHERE host_id IS NOT NULL;
