-- Passwords of the SSH bastion for one login to one database, as keyed hashes.
CREATE TABLE tunnel_password (
  hash bytea PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  project_id uuid NOT NULL REFERENCES project (id) ON DELETE CASCADE,
  -- Id of the database or the branch: the user name of the login.
  target uuid NOT NULL,
  -- What it was asked for with. Its end is the end of the tunnels.
  via text NOT NULL CHECK (via IN ('pat', 'session')),
  via_id uuid NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX tunnel_password_account ON tunnel_password (account_id);
CREATE INDEX tunnel_password_project ON tunnel_password (project_id);
CREATE INDEX tunnel_password_expires ON tunnel_password (expires_at);
-- Host keys of the bastions, as gateways report them once a minute. One row for each gateway.
CREATE TABLE bastion_key (
  -- A line of known_hosts without the name: type and key.
  public_key text PRIMARY KEY,
  seen_at timestamptz NOT NULL
);
