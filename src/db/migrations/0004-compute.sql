CREATE TABLE host (
  id uuid PRIMARY KEY,
  name text NOT NULL,
  incarnation text NOT NULL,
  version text NOT NULL,
  arch text NOT NULL,
  network text NOT NULL,
  hypervisors jsonb NOT NULL,
  -- What may be promised, over-commitment included; the CHECKs make overselling impossible whatever the scheduler read.
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib bigint NOT NULL,
  used_vcpus integer NOT NULL DEFAULT 0,
  used_memory_mib integer NOT NULL DEFAULT 0,
  used_disk_mib bigint NOT NULL DEFAULT 0,
  cordoned boolean NOT NULL DEFAULT false,
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (used_vcpus >= 0 AND used_memory_mib >= 0 AND used_disk_mib >= 0)
);
CREATE UNIQUE INDEX host_name ON host (name);

CREATE TABLE app (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  name text NOT NULL,
  git_url text NOT NULL,
  port integer NOT NULL,
  health_check_path text NOT NULL,
  drain_timeout integer NOT NULL,
  desired_replicas integer NOT NULL,
  min_replicas integer NOT NULL,
  max_replicas integer NOT NULL,
  autoscaling_enabled boolean NOT NULL,
  cpu_threshold double precision NOT NULL,
  mem_threshold double precision NOT NULL,
  scale_state text NOT NULL DEFAULT 'active'
    CHECK (scale_state IN ('active', 'idle', 'scaled_to_zero', 'warming_up')),
  active_deployment_id uuid,
  hostname text NOT NULL,
  scm_installation_id bigint,
  scm_repo_full_name text,
  scm_repo_id bigint,
  scm_webhook_secret bytea NOT NULL,
  want text NOT NULL DEFAULT 'live' CHECK (want IN ('live', 'deleted')),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX app_name ON app (project_id, name) WHERE want = 'live';
CREATE UNIQUE INDEX app_hostname ON app (hostname) WHERE want = 'live';
CREATE INDEX app_by_project ON app (project_id, id DESC);

-- The order in which people asked for rollouts; of two that become healthy, the later wish serves.
CREATE SEQUENCE rollout_order;

CREATE TABLE deployment (
  id uuid PRIMARY KEY,
  rollout bigint NOT NULL DEFAULT nextval('rollout_order'),
  job_id text NOT NULL,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  build_id text NOT NULL DEFAULT '',
  image text NOT NULL,
  hypervisor integer NOT NULL,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  port integer NOT NULL,
  git_branch text NOT NULL DEFAULT '',
  git_commit_hash text NOT NULL DEFAULT '',
  git_commit_message text NOT NULL DEFAULT '',
  trigger_source text NOT NULL,
  want text NOT NULL DEFAULT 'running' CHECK (want IN ('running', 'paused', 'stopped', 'deleted')),
  -- Once it is over: how it ended. Null while it lives.
  outcome text CHECK (outcome IN ('stopped', 'superseded', 'failed', 'cancelled')),
  error_message text,
  -- The status that streams were last told, so that nothing is told twice.
  announced text,
  scheduled_at timestamptz,
  started_at timestamptz,
  stopped_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX deployment_job ON deployment (job_id);
CREATE INDEX deployment_app ON deployment (app_id, id DESC);
CREATE INDEX deployment_live ON deployment (project_id, id DESC) WHERE outcome IS NULL;

CREATE TABLE vm (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL,
  deployment_id uuid NOT NULL REFERENCES deployment,
  host_id uuid REFERENCES host,
  -- Raised with every change of the wish; a host refuses a smaller one than it has seen.
  generation integer NOT NULL DEFAULT 1,
  want text NOT NULL DEFAULT 'running' CHECK (want IN ('running', 'paused', 'stopped', 'absent')),
  hypervisor text,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  ipv6_address text NOT NULL,
  -- What the host last said.
  seen_generation integer NOT NULL DEFAULT 0,
  seen_state text,
  healthy boolean NOT NULL DEFAULT false,
  endpoint_host text,
  endpoint_port integer,
  seen_error text,
  seen_steps jsonb NOT NULL DEFAULT '[]',
  restart_count integer NOT NULL DEFAULT 0,
  -- Why it waits for a host.
  placement_note text,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX vm_deployment ON vm (deployment_id);
CREATE INDEX vm_host ON vm (host_id);
CREATE INDEX vm_project ON vm (project_id, id DESC);
CREATE UNIQUE INDEX vm_ipv6 ON vm (ipv6_address);

-- What the gateways route by: derived from apps and VMs in the transaction that changes them.
CREATE SEQUENCE route_version;
CREATE TABLE route (
  hostname text PRIMARY KEY,
  project_id uuid NOT NULL,
  app_id uuid NOT NULL,
  state text NOT NULL CHECK (state IN ('live', 'sleeping', 'down', 'gone')),
  backends jsonb NOT NULL,
  drain_seconds integer NOT NULL,
  version bigint NOT NULL DEFAULT nextval('route_version'),
  -- The transaction that wrote it: readers ask for everything from a snapshot's horizon on, so nothing is missed.
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX route_xid ON route (xid);
