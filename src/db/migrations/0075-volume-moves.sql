-- A volume on its way to another host. From its last commit on (`clearing`) the volume is the target's, and what is left of it at
-- the source goes; a move that is given up leaves it where it is (`cancelling`: its host is told), and what has come to the target
-- goes (`dropping`).
-- `brought`: by the VM that has it, as that moves while it runs.
CREATE TABLE volume_move (
  id uuid PRIMARY KEY,
  volume_id uuid NOT NULL REFERENCES volume (id) ON DELETE CASCADE,
  -- With the VM that has it; null: nobody has it.
  migration_id uuid REFERENCES migration (id) ON DELETE SET NULL,
  source_host_id uuid NOT NULL REFERENCES host (id),
  target_host_id uuid NOT NULL REFERENCES host (id),
  source_pool text NOT NULL,
  target_pool text NOT NULL,
  how text NOT NULL CHECK (how IN ('copied', 'brought')),
  want text NOT NULL DEFAULT 'move' CHECK (want IN ('move', 'cancel')),
  state text NOT NULL DEFAULT 'preparing'
    CHECK (state IN ('preparing', 'copying', 'copied', 'complete', 'clearing', 'cancelling', 'dropping', 'completed', 'cancelled', 'failed')),
  -- Nobody writes to it any more: what has changed since the first copy may be sent.
  final boolean NOT NULL,
  uri text,
  percent double precision NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  total_bytes bigint NOT NULL DEFAULT 0,
  error text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz
);
CREATE UNIQUE INDEX volume_move_live ON volume_move (volume_id) WHERE state IN ('preparing', 'copying', 'copied', 'complete', 'cancelling');
CREATE INDEX volume_move_volume ON volume_move (volume_id, id DESC);
CREATE INDEX volume_move_migration ON volume_move (migration_id);
CREATE INDEX volume_move_source ON volume_move (source_host_id) WHERE ended_at IS NULL;
CREATE INDEX volume_move_target ON volume_move (target_host_id) WHERE ended_at IS NULL;
-- In the volume's own row, which is the lock of whoever takes, restores, clones or moves it.
ALTER TABLE volume ADD COLUMN moving_to uuid REFERENCES host (id);
CREATE INDEX volume_moving ON volume (moving_to) WHERE moving_to IS NOT NULL;
-- The move by which it came to its host.
ALTER TABLE volume ADD COLUMN arrived_by uuid;
-- The VM has volumes, which go with it.
ALTER TABLE migration ADD COLUMN with_volumes boolean NOT NULL DEFAULT false;
-- When the VM was told to stop, where it does not move while it runs.
ALTER TABLE migration ADD COLUMN stopped_at timestamptz;
-- What a VM that is to move has kept beside it.
CREATE INDEX vm_snapshot_vm ON vm_snapshot (vm_id) WHERE want = 'present';
