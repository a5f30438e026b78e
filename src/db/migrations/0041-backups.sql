-- What is known of the backups of a branch: asked of the tool that makes them.
CREATE TABLE branch_backup (
  branch_id uuid PRIMARY KEY REFERENCES branch ON DELETE CASCADE,
  -- The newest whole backup, and how many there are.
  newest_at timestamptz,
  backups integer NOT NULL DEFAULT 0,
  size_bytes bigint NOT NULL DEFAULT 0,
  -- Since when one is being made.
  started_at timestamptz,
  looked_at timestamptz,
  error text,
  -- The restore drill: a branch made from the newest backup, and what came of it.
  drill_branch_id uuid,
  drill_started_at timestamptz,
  drilled_at timestamptz,
  drill_passed boolean,
  drill_error text
);
