-- What a project signs in to image registries with.
CREATE TABLE registry_credential (
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  -- `host[:port]` in lower case; docker.io for Docker Hub. The credential goes to no other.
  host text NOT NULL,
  username text NOT NULL,
  -- Sealed: the password or token.
  secret bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, host)
);
