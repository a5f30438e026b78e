-- Commands that run by a schedule, each time in a separate VM.
CREATE TABLE job (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  name text NOT NULL,
  schedule text NOT NULL,
  time_zone text NOT NULL,
  command text[] NOT NULL,
  overlap text NOT NULL CHECK (overlap IN ('skip', 'allow', 'replace')),
  retries integer NOT NULL,
  timeout_seconds integer NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  -- The next time of the schedule. Null: paused, or the schedule has no further time.
  next_at timestamptz,
  -- Why the last time had no run.
  note text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX job_name ON job (app_id, name);
CREATE INDEX job_of_project ON job (project_id);
CREATE INDEX job_due ON job (next_at) WHERE next_at IS NOT NULL;
ALTER TABLE run DROP CONSTRAINT run_purpose_check;
ALTER TABLE run ADD CONSTRAINT run_purpose_check CHECK (purpose IN ('command', 'release', 'job'));
ALTER TABLE run ADD COLUMN job_id uuid REFERENCES job ON DELETE SET NULL;
-- The time of the schedule that it belongs to; null: it was started by hand.
ALTER TABLE run ADD COLUMN due_at timestamptz;
ALTER TABLE run ADD COLUMN attempt integer NOT NULL DEFAULT 1;
-- Failed runs that may be repeated: their number, not that of the jobs, decides what a look at them costs.
CREATE INDEX run_of_job_failed ON run (ended_at)
  WHERE due_at IS NOT NULL AND outcome IN ('failed', 'timed_out', 'lost');
-- One run for each time and attempt, whatever control plane starts it.
CREATE UNIQUE INDEX run_of_job ON run (job_id, due_at, attempt);
