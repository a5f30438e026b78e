-- The variables of an app or of a group after each change, so that an earlier version can be restored.
CREATE TABLE env_version (
  id uuid PRIMARY KEY,
  app_id uuid REFERENCES app(id) ON DELETE CASCADE,
  group_id uuid REFERENCES env_group(id) ON DELETE CASCADE,
  version integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- No foreign key, as in deployment. Null: the state before the first change that was recorded.
  author_id uuid,
  set_names text[] NOT NULL,
  removed_names text[] NOT NULL,
  -- The version that was restored.
  restored integer,
  CONSTRAINT env_version_owner CHECK ((app_id IS NULL) <> (group_id IS NULL)),
  CONSTRAINT env_version_app UNIQUE (app_id, version),
  CONSTRAINT env_version_group UNIQUE (group_id, version)
);
CREATE TABLE env_version_value (
  version_id uuid NOT NULL REFERENCES env_version(id) ON DELETE CASCADE,
  name text NOT NULL,
  value bytea NOT NULL,
  plain boolean NOT NULL,
  PRIMARY KEY (version_id, name)
);
