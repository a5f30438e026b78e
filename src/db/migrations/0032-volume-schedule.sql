-- Snapshots that the platform takes by itself, and how many of them it keeps.
ALTER TABLE volume
  ADD COLUMN schedule_minutes integer CHECK (schedule_minutes > 0),
  ADD COLUMN schedule_keep integer CHECK (schedule_keep > 0),
  ADD COLUMN scheduled_at timestamptz,
  ADD CONSTRAINT volume_schedule_whole CHECK ((schedule_minutes IS NULL) = (schedule_keep IS NULL));
CREATE INDEX volume_scheduled ON volume (scheduled_at) WHERE schedule_minutes IS NOT NULL;
