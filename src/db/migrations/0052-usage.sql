-- What projects use, exact across crashes: spans open and close in the transactions that give a VM its room and take it
-- back; counters and the mark they were counted up to move together.
CREATE TABLE usage_span (
  vm_id uuid NOT NULL,
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  vcpus integer NOT NULL,
  memory_mib integer NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz
);
CREATE UNIQUE INDEX usage_span_open ON usage_span (vm_id) WHERE ended_at IS NULL;
CREATE INDEX usage_span_project ON usage_span (project_id, started_at);

-- What is sampled instead: by month (its first instant, UTC).
CREATE TABLE usage_month (
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  month timestamptz NOT NULL,
  storage_mib_seconds double precision NOT NULL DEFAULT 0,
  egress_bytes bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (project_id, month)
);
-- Up to when storage was counted. One row.
CREATE TABLE usage_mark (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  counted_until timestamptz NOT NULL DEFAULT now()
);
INSERT INTO usage_mark DEFAULT VALUES;
-- How much of a VM's counter has been counted.
CREATE TABLE usage_egress (
  vm_id uuid PRIMARY KEY,
  counted_bytes bigint NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE budget (
  project_id uuid PRIMARY KEY REFERENCES project ON DELETE CASCADE,
  monthly_cents integer NOT NULL CHECK (monthly_cents >= 0),
  -- Of `month`; a new month begins with 'fine'.
  state text NOT NULL DEFAULT 'fine' CHECK (state IN ('fine', 'warned', 'grace', 'capped')),
  month timestamptz NOT NULL DEFAULT date_trunc('month', now(), 'UTC'),
  changed_at timestamptz NOT NULL DEFAULT now()
);
-- Its budget is used up: nothing new runs, and what ran sleeps and is not woken.
ALTER TABLE project ADD COLUMN capped_at timestamptz;
