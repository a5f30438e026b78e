-- All long-running work: one row per resource that is worked on (src/engine/machine.ts).
CREATE TABLE machine (
  kind text NOT NULL,
  id uuid NOT NULL,
  phase text NOT NULL,
  entered_at timestamptz NOT NULL DEFAULT now(),
  wake_at timestamptz NOT NULL DEFAULT now(),
  lease uuid,
  lease_until timestamptz,
  -- Which runner holds the lease. It holds the advisory lock 'runner <id>' as long as it lives.
  runner uuid,
  pokes bigint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  last_error text,
  deadline timestamptz,
  PRIMARY KEY (kind, id),
  CONSTRAINT machine_lease_whole CHECK (num_nulls(lease, lease_until, runner) IN (0, 3))
) WITH (
  -- Claims change no indexed column: with room on the page they are HOT updates and leave the indexes alone.
  fillfactor = 70,
  -- Rows are rewritten all the time; the default of 20 % dead rows lets the due index rot between vacuums.
  autovacuum_vacuum_scale_factor = 0.02
);
CREATE INDEX machine_due ON machine (wake_at);
CREATE INDEX machine_overdue ON machine (deadline) WHERE deadline IS NOT NULL;

-- Wake-ups on their way: written by whoever changes something a machine looks at, delivered by the next claim.
CREATE TABLE machine_poke (
  kind text NOT NULL,
  id uuid NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Machines that stayed in a phase beyond its deadline. Closed by leaving the phase.
CREATE TABLE alert (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  kind text NOT NULL,
  machine_id uuid NOT NULL,
  phase text NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT now(),
  closed_at timestamptz
);
CREATE UNIQUE INDEX alert_open ON alert (kind, machine_id, phase) WHERE closed_at IS NULL;
CREATE INDEX alert_opened_at ON alert (opened_at);

-- The newest run of each sweep (src/engine/sweep.ts), and the pokes that it has not answered yet.
CREATE TABLE sweep_run (
  name text PRIMARY KEY,
  started_at timestamptz,
  duration_ms integer,
  result jsonb,
  error text,
  runs bigint NOT NULL DEFAULT 0,
  failures_in_a_row integer NOT NULL DEFAULT 0,
  pokes bigint NOT NULL DEFAULT 0,
  pokes_seen bigint NOT NULL DEFAULT 0
);
