-- Moving a running VM to another host. The room on the target is reserved from the start; the source keeps its own until
-- it has let go of the VM.
CREATE TABLE migration (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  app_id uuid NOT NULL,
  deployment_id uuid NOT NULL,
  vm_id uuid NOT NULL,
  source_host_id uuid NOT NULL REFERENCES host,
  target_host_id uuid NOT NULL REFERENCES host,
  method text NOT NULL CHECK (method IN ('live', 'stop-and-copy')),
  want text NOT NULL DEFAULT 'move' CHECK (want IN ('move', 'cancel')),
  state text NOT NULL DEFAULT 'preparing'
    CHECK (state IN ('preparing', 'copying', 'switching', 'clearing', 'cancelling', 'completed', 'cancelled', 'failed')),
  -- Where the target listens.
  uri text,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  percent double precision NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  total_bytes bigint NOT NULL DEFAULT 0,
  downtime_ms double precision,
  error text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz
);
CREATE UNIQUE INDEX migration_live ON migration (vm_id) WHERE ended_at IS NULL;
CREATE INDEX migration_deployment ON migration (deployment_id, id DESC);
CREATE INDEX migration_target ON migration (target_host_id) WHERE ended_at IS NULL;
