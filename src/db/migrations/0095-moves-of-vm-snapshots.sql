-- A snapshot of a VM on its way to another host, as a volume is (0075). `complete`: all of it is there, and it waits for the volumes
-- that it has copies of, which become the target's in the same commit.
CREATE TABLE vm_snapshot_move (
  id uuid PRIMARY KEY,
  snapshot_id uuid NOT NULL REFERENCES vm_snapshot (id) ON DELETE CASCADE,
  -- What moves in one commit: a migration, or the `group_id` of volumes that no VM has.
  group_id uuid NOT NULL,
  -- With the VM that has the volumes; null: nobody has them.
  migration_id uuid REFERENCES migration (id) ON DELETE SET NULL,
  source_host_id uuid NOT NULL REFERENCES host (id),
  target_host_id uuid NOT NULL REFERENCES host (id),
  want text NOT NULL DEFAULT 'move' CHECK (want IN ('move', 'cancel')),
  state text NOT NULL DEFAULT 'preparing'
    CHECK (state IN ('preparing', 'copying', 'complete', 'clearing', 'cancelling', 'dropping', 'completed', 'cancelled', 'failed')),
  uri text,
  percent double precision NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  total_bytes bigint NOT NULL DEFAULT 0,
  error text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz
);
CREATE UNIQUE INDEX vm_snapshot_move_live ON vm_snapshot_move (snapshot_id) WHERE state IN ('preparing', 'copying', 'complete', 'cancelling');
CREATE INDEX vm_snapshot_move_snapshot ON vm_snapshot_move (snapshot_id, id DESC);
CREATE INDEX vm_snapshot_move_group ON vm_snapshot_move (group_id);
CREATE INDEX vm_snapshot_move_source ON vm_snapshot_move (source_host_id) WHERE ended_at IS NULL;
CREATE INDEX vm_snapshot_move_target ON vm_snapshot_move (target_host_id) WHERE ended_at IS NULL;
CREATE INDEX vm_snapshot_move_migration ON vm_snapshot_move (migration_id);
-- Until its host says that it has it whole nobody starts from it.
ALTER TABLE vm_snapshot ADD COLUMN moving_to uuid REFERENCES host (id);
CREATE INDEX vm_snapshot_moving ON vm_snapshot (moving_to) WHERE moving_to IS NOT NULL;
-- Hosts refuse older wishes: each move, and its removal, is a newer one.
ALTER TABLE vm_snapshot ADD COLUMN generation integer NOT NULL DEFAULT 1;
UPDATE vm_snapshot SET generation = 2 WHERE want = 'absent';
-- Volumes that no VM has, of which one snapshot has copies, move together.
ALTER TABLE volume_move ADD COLUMN group_id uuid;
CREATE INDEX volume_move_group ON volume_move (group_id) WHERE group_id IS NOT NULL;
