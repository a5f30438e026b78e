-- The lines of builds that are over: hosts go, and a failure is asked about later.
CREATE TABLE build_log (
  build_id uuid PRIMARY KEY REFERENCES build ON DELETE CASCADE,
  -- [[microseconds since 1970, line], ...]
  lines jsonb NOT NULL,
  kept_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX build_log_kept ON build_log (kept_at);
