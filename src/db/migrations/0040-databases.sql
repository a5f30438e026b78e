-- A managed database: what its branches have in common.
CREATE TABLE database (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  name text NOT NULL,
  engine text NOT NULL,
  engine_version integer NOT NULL,
  -- `volume`: each branch is a VM with a volume. `neon`: a VM on a timeline of a page server.
  backend text NOT NULL CHECK (backend IN ('volume', 'neon')),
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  settings jsonb NOT NULL DEFAULT '{}',
  -- Of the owner, sealed. VMs only get what verifies it.
  password bytea NOT NULL,
  tenant_id text NOT NULL UNIQUE CHECK (tenant_id ~ '^[0-9a-f]{32}$'),
  -- Only ever grows. Whoever has the newest one may write.
  tenant_gen integer NOT NULL DEFAULT 1,
  storage_node bigint NOT NULL DEFAULT 1,
  want text NOT NULL DEFAULT 'running' CHECK (want IN ('running', 'suspended', 'deleted')),
  -- Raised by every change that VMs have to start anew for.
  revision integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX database_name ON database (project_id, name) WHERE want <> 'deleted';
CREATE INDEX database_project ON database (project_id, id DESC);
CREATE INDEX database_storage_node ON database (storage_node) WHERE want <> 'deleted';

-- A line of the database's history, with a VM and disks of its own.
CREATE TABLE branch (
  id uuid PRIMARY KEY,
  database_id uuid NOT NULL REFERENCES database,
  project_id uuid NOT NULL,
  name text NOT NULL,
  -- `drill`: made to prove a backup, seen by nobody.
  kind text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'drill')),
  is_current boolean NOT NULL DEFAULT false,
  timeline_id text NOT NULL UNIQUE CHECK (timeline_id ~ '^[0-9a-f]{32}$'),
  -- Of a page server: what it was before the newest restore.
  previous_timeline_id text,
  parent_id uuid,
  -- What it began as: nothing, a snapshot, or the parent's backups played up to a moment (`latest`, or an instant).
  from_snapshot_id uuid,
  from_moment text,
  app_id uuid,
  data_volume_id uuid,
  backup_volume_id uuid,
  want text NOT NULL DEFAULT 'live' CHECK (want IN ('live', 'deleted')),
  -- Counters: how often a restore was asked for, and how many of them are done.
  restores integer NOT NULL DEFAULT 0,
  restored integer NOT NULL DEFAULT 0,
  restored_at timestamptz,
  restore_snapshot_id uuid,
  -- Of the database, as its VM runs.
  revision integer NOT NULL DEFAULT 0,
  ready_at timestamptz,
  -- What a client found when it looked last.
  answers boolean NOT NULL DEFAULT false,
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX branch_current ON branch (database_id) WHERE is_current;
CREATE UNIQUE INDEX branch_name ON branch (database_id, name) WHERE want = 'live' AND kind = 'user';
CREATE UNIQUE INDEX branch_app ON branch (app_id);
CREATE INDEX branch_database ON branch (database_id);

CREATE TABLE database_snapshot (
  id uuid PRIMARY KEY,
  database_id uuid NOT NULL,
  branch_id uuid NOT NULL REFERENCES branch,
  project_id uuid NOT NULL,
  name text NOT NULL,
  -- `restore`: the state before a restore, kept by itself.
  kind text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'restore')),
  want text NOT NULL DEFAULT 'present' CHECK (want IN ('present', 'absent')),
  state text NOT NULL DEFAULT 'creating' CHECK (state IN ('creating', 'ready', 'failed')),
  volume_snapshot_id uuid,
  -- Where the page server's history stood.
  lsn text,
  size_bytes bigint NOT NULL DEFAULT 0,
  error text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX database_snapshot_name ON database_snapshot (database_id, name) WHERE want = 'present';
CREATE INDEX database_snapshot_branch ON database_snapshot (branch_id);

-- The machine of kind `owner` that is poked when something of the app changes.
ALTER TABLE app ADD COLUMN owner_id uuid;
