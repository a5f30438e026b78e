-- Variables that several apps of a project share. Of equal names, that of the app wins, then that of the group with the
-- highest position.
CREATE TABLE env_group (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project(id) ON DELETE CASCADE,
  name text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT env_group_name UNIQUE (project_id, name)
);
CREATE TABLE env_group_value (
  group_id uuid NOT NULL REFERENCES env_group(id) ON DELETE CASCADE,
  name text NOT NULL,
  value bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- As in app_env.
  plain_at timestamptz,
  PRIMARY KEY (group_id, name)
);
CREATE TABLE app_env_group (
  app_id uuid NOT NULL REFERENCES app(id) ON DELETE CASCADE,
  group_id uuid NOT NULL REFERENCES env_group(id) ON DELETE CASCADE,
  position integer NOT NULL,
  PRIMARY KEY (app_id, group_id)
);
CREATE INDEX app_env_group_group ON app_env_group (group_id);
