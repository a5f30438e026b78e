-- Hosts retain the log lines of VMs that were removed or moved away. This says which host has those of which app.
-- No reference to app or deployment: the lines of a deleted deployment are still found, and the hosts must still learn
-- that an app was deleted.
CREATE TABLE vm_log (
  host_id uuid NOT NULL REFERENCES host ON DELETE CASCADE,
  vm_id uuid NOT NULL,
  app_id uuid NOT NULL,
  deployment_id uuid NOT NULL,
  job_id text NOT NULL,
  created_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL DEFAULT now(),
  -- The app was deleted: its hosts remove the lines, then the row goes.
  app_gone boolean NOT NULL DEFAULT false,
  PRIMARY KEY (host_id, vm_id)
);
CREATE INDEX vm_log_of_app ON vm_log (app_id, ended_at DESC);
CREATE INDEX vm_log_ended ON vm_log (ended_at);
CREATE INDEX vm_log_app_gone ON vm_log (host_id, app_id) WHERE app_gone;
