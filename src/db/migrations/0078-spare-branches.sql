-- A branch that stands ready, paused, until somebody asks for one of its snapshot: docs/decisions/0053-branches-that-stand-ready.md
ALTER TABLE branch DROP CONSTRAINT branch_kind_check;
ALTER TABLE branch ADD CONSTRAINT branch_kind_check CHECK (kind IN ('user', 'drill', 'spare'));
CREATE UNIQUE INDEX branch_spare ON branch (database_id) WHERE kind = 'spare' AND want = 'live';
-- What is recent, for the sweep that looks each few seconds.
CREATE INDEX branch_of_snapshot ON branch (created_at) WHERE kind = 'user' AND from_snapshot_id IS NOT NULL;
CREATE INDEX database_snapshot_recent ON database_snapshot (created_at) WHERE kind = 'user';
