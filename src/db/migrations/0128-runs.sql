-- One-off VMs with the image and environment of a deployment: commands of people, and release commands.
CREATE TABLE run (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  deployment_id uuid NOT NULL REFERENCES deployment ON DELETE CASCADE,
  -- Null: the platform started it.
  account_id uuid,
  purpose text NOT NULL CHECK (purpose IN ('command', 'release')),
  -- Null: the VM waits for sessions, and ends without them.
  command text[],
  timeout_seconds integer NOT NULL,
  want text NOT NULL DEFAULT 'finished' CHECK (want IN ('finished', 'cancelled')),
  outcome text CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
  exit_code integer,
  error text,
  -- The last lines of its output, kept when the VM is removed.
  log text,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  ended_at timestamptz
);
CREATE INDEX run_of_app ON run (app_id, id);
CREATE INDEX run_of_project ON run (project_id);
CREATE INDEX run_of_deployment ON run (deployment_id);
CREATE INDEX run_ended ON run (ended_at);
-- Null: a replica of its deployment.
ALTER TABLE vm ADD COLUMN run_id uuid REFERENCES run;
ALTER TABLE vm ADD COLUMN seen_exit_code integer;
CREATE INDEX vm_of_run ON vm (run_id) WHERE run_id IS NOT NULL;
-- Runs in a separate VM before a new version serves.
ALTER TABLE app ADD COLUMN release_command text[];
ALTER TABLE deployment ADD COLUMN release_command text[];
