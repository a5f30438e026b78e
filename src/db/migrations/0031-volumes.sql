-- A disk that outlives VMs: where its bytes are, and what its host shall make of it.
CREATE TABLE volume (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  -- Whom it was made for. Only the user's own are in the user's lists.
  owner text NOT NULL DEFAULT 'user' CHECK (owner IN ('user', 'database')),
  -- The machine of that kind that is poked when the volume changes.
  owner_id uuid,
  name text NOT NULL,
  size_mib integer NOT NULL CHECK (size_mib > 0),
  -- Empty until it has a place, unless one was asked for.
  pool_name text NOT NULL DEFAULT '',
  host_id uuid REFERENCES host,
  -- Only that host can reach it; else the host is merely the one that does what is to be done with it.
  bound boolean NOT NULL DEFAULT true,
  want text NOT NULL DEFAULT 'present' CHECK (want IN ('present', 'absent')),
  state text NOT NULL DEFAULT 'creating' CHECK (state IN ('creating', 'ready', 'restoring', 'failed')),
  -- Of the wish; a host refuses a smaller one than it has seen.
  generation integer NOT NULL DEFAULT 1,
  -- Raised before a VM may write to it; a host refuses to open it under a smaller one than it has seen.
  attach_generation integer NOT NULL DEFAULT 0,
  -- What its content was at first.
  from_volume_id uuid,
  from_snapshot_id uuid,
  -- The snapshot it is put back to, and how often that has happened.
  restore_snapshot_id uuid,
  restores integer NOT NULL DEFAULT 0,
  used_bytes bigint NOT NULL DEFAULT 0,
  snapshot_bytes bigint NOT NULL DEFAULT 0,
  measured_at timestamptz,
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX volume_name ON volume (project_id, owner, name) WHERE want = 'present';
CREATE INDEX volume_project ON volume (project_id, id DESC);
CREATE INDEX volume_host ON volume (host_id);
CREATE INDEX volume_source ON volume (from_volume_id);

CREATE TABLE volume_snapshot (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  volume_id uuid NOT NULL REFERENCES volume ON DELETE CASCADE,
  name text NOT NULL,
  -- `schedule`: made and dropped by the platform.
  kind text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'schedule')),
  want text NOT NULL DEFAULT 'present' CHECK (want IN ('present', 'absent')),
  state text NOT NULL DEFAULT 'creating' CHECK (state IN ('creating', 'ready', 'failed')),
  size_bytes bigint NOT NULL DEFAULT 0,
  pause_ms double precision,
  error text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX volume_snapshot_name ON volume_snapshot (volume_id, name) WHERE want = 'present';

-- What people (and databases) asked for: an app has the volume, or, with a deployment, only that deployment has it.
CREATE TABLE volume_attachment (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  volume_id uuid NOT NULL REFERENCES volume,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  deployment_id uuid REFERENCES deployment ON DELETE CASCADE,
  mount_point text NOT NULL,
  -- 0 read-write, 1 read-only.
  access_mode integer NOT NULL CHECK (access_mode IN (0, 1)),
  -- `detached`: it goes as soon as no VM has the volume from it.
  want text NOT NULL DEFAULT 'attached' CHECK (want IN ('attached', 'detached')),
  created_at timestamptz NOT NULL DEFAULT now()
);
-- One writer anywhere.
CREATE UNIQUE INDEX volume_attachment_writer ON volume_attachment (volume_id) WHERE access_mode = 0;
CREATE UNIQUE INDEX volume_attachment_volume ON volume_attachment (app_id, volume_id);
CREATE UNIQUE INDEX volume_attachment_mount ON volume_attachment (app_id, mount_point);
CREATE INDEX volume_attachment_deployment ON volume_attachment (deployment_id);

-- What a VM has of it, or is about to get: the lock that a host goes by.
CREATE TABLE vm_disk (
  vm_id uuid NOT NULL REFERENCES vm ON DELETE CASCADE,
  volume_id uuid NOT NULL REFERENCES volume,
  attachment_id uuid NOT NULL REFERENCES volume_attachment,
  generation integer NOT NULL,
  mount_point text NOT NULL,
  read_only boolean NOT NULL,
  want text NOT NULL DEFAULT 'present' CHECK (want IN ('present', 'absent')),
  -- The VM's generation that says so; what the host says of an older one is no answer to it.
  vm_generation integer NOT NULL,
  seen_state text,
  seen_error text,
  PRIMARY KEY (vm_id, volume_id)
);
CREATE UNIQUE INDEX vm_disk_writer ON vm_disk (volume_id) WHERE NOT read_only;
CREATE INDEX vm_disk_attachment ON vm_disk (attachment_id);
CREATE INDEX vm_disk_volume ON vm_disk (volume_id);

-- Whom the app was made for; only the user's own are in the user's lists and counts.
ALTER TABLE app ADD COLUMN owner text NOT NULL DEFAULT 'user' CHECK (owner IN ('user', 'database'));
-- What the host's beats say of its storage pools.
ALTER TABLE host ADD COLUMN pools jsonb NOT NULL DEFAULT '[]';
