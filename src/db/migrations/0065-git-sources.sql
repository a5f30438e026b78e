-- Which branch an app follows (empty: the repository's default one), and whether its submodules are fetched, too.
ALTER TABLE app ADD COLUMN git_branch text NOT NULL DEFAULT '';
ALTER TABLE app ADD COLUMN git_submodules boolean NOT NULL DEFAULT false;
ALTER TABLE build ADD COLUMN git_submodules boolean NOT NULL DEFAULT false;

-- What reads the repository of an app that is in no installation of the integration.
CREATE TABLE git_credential (
  app_id uuid PRIMARY KEY REFERENCES app ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('token', 'ssh_key')),
  -- Of the repository when it was set: it goes to no other.
  host text NOT NULL,
  -- With a token.
  username text NOT NULL,
  -- With a key: its public half, and the keys that the host may have (sshd(8), known_hosts).
  public_key text,
  known_hosts text,
  -- Sealed: the token, or the private key.
  secret bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);

-- What a delivery did for an app, and why not more.
CREATE TABLE scm_effect (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  source text NOT NULL,
  delivery_id text NOT NULL,
  event text NOT NULL,
  status text NOT NULL CHECK (status IN ('applied', 'ignored', 'refused')),
  reason text NOT NULL,
  branch text NOT NULL,
  commit_hash text NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (app_id, source, delivery_id)
);
CREATE INDEX scm_effect_received ON scm_effect (received_at);
