-- What idle detection and the autoscaler go by.
ALTER TABLE app
  ADD COLUMN last_request_at timestamptz,
  ADD COLUMN scale_changed_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN scaled_at timestamptz;
CREATE INDEX app_may_sleep ON app (id) WHERE min_replicas = 0 AND want = 'live';

-- Memory and disk of a VM on its host. They outlive the VM, and while they are removed also the deployment.
CREATE TABLE vm_snapshot (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  app_id uuid NOT NULL,
  deployment_id uuid NOT NULL,
  vm_id uuid NOT NULL,
  host_id uuid NOT NULL REFERENCES host,
  -- `sleep`: made by the platform when an app has nothing to do, and used once.
  kind text NOT NULL CHECK (kind IN ('user', 'sleep')),
  name text NOT NULL,
  want text NOT NULL DEFAULT 'present' CHECK (want IN ('present', 'absent')),
  state text NOT NULL DEFAULT 'creating' CHECK (state IN ('creating', 'ready', 'failed')),
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  size_bytes bigint NOT NULL DEFAULT 0,
  sha256 text,
  made_by text,
  pause_ms double precision,
  error text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX vm_snapshot_name ON vm_snapshot (deployment_id, name) WHERE want = 'present' AND kind = 'user';
CREATE UNIQUE INDEX vm_snapshot_sleep ON vm_snapshot (deployment_id) WHERE want = 'present' AND kind = 'sleep';
CREATE INDEX vm_snapshot_app ON vm_snapshot (app_id);

ALTER TABLE vm
  -- Started from this snapshot instead of booted; `renew`: as somebody new.
  ADD COLUMN from_snapshot_id uuid,
  ADD COLUMN from_renew boolean NOT NULL DEFAULT false,
  -- Where the snapshot is. Without `from_required` the VM boots elsewhere when there is no room.
  ADD COLUMN pinned_host_id uuid,
  ADD COLUMN from_required boolean NOT NULL DEFAULT false,
  -- Raised to start the VM anew once.
  ADD COLUMN restarts integer NOT NULL DEFAULT 0,
  ADD COLUMN balloon_target_mib integer;
