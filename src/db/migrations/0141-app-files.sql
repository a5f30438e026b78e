-- Files that the VMs of an app get before their program starts: with a content of their own, or with the value of a
-- variable. A deployment keeps those of its creation.
CREATE TABLE app_file (
  app_id uuid NOT NULL REFERENCES app(id) ON DELETE CASCADE,
  path text NOT NULL,
  mode integer NOT NULL,
  -- Base64, sealed with the purpose `app.file`.
  content bytea,
  variable text,
  size_bytes integer NOT NULL,
  -- Of the content; null: it is a secret.
  sha256 text,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (app_id, path),
  CONSTRAINT app_file_check CHECK ((content IS NULL) <> (variable IS NULL))
);
CREATE TABLE deployment_file (
  deployment_id uuid NOT NULL REFERENCES deployment(id) ON DELETE CASCADE,
  path text NOT NULL,
  mode integer NOT NULL,
  content bytea,
  variable text,
  PRIMARY KEY (deployment_id, path)
);
