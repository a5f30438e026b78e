-- Making an image of a repository, in a separate VM. One build of an app holds room on a host at a time.
CREATE TABLE build (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  deployment_id uuid NOT NULL,
  git_url text NOT NULL,
  git_branch text NOT NULL,
  git_commit text NOT NULL,
  -- Of the source host: whose token reads the repository.
  scm_installation_id bigint,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  disk_mib integer NOT NULL,
  state text NOT NULL DEFAULT 'queued'
    CHECK (state IN ('queued', 'fetching', 'building', 'pushing', 'succeeded', 'failed', 'cancelled', 'superseded')),
  -- Where it runs or ran last: its log lines are there. `holds`: room there is reserved for it.
  host_id uuid REFERENCES host,
  hypervisor text,
  holds boolean NOT NULL DEFAULT false,
  generation integer NOT NULL DEFAULT 1,
  -- How often a host was given up under it.
  hosts_lost integer NOT NULL DEFAULT 0,
  image text,
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  ended_at timestamptz
);
CREATE UNIQUE INDEX build_running ON build (app_id) WHERE holds;
CREATE UNIQUE INDEX build_deployment ON build (deployment_id);
CREATE INDEX build_app ON build (app_id, id DESC);
CREATE INDEX build_host ON build (host_id) WHERE holds;
CREATE INDEX build_queued ON build (app_id) WHERE state = 'queued';

-- Empty while it is being built.
ALTER TABLE deployment ALTER COLUMN image SET DEFAULT '';
