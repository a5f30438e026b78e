CREATE TABLE account (
  id uuid PRIMARY KEY,
  email text NOT NULL CHECK (email = lower(email)),
  password_hash text NOT NULL,
  first_name text,
  last_name text,
  avatar_url text,
  email_notifications boolean NOT NULL DEFAULT true,
  marketing_emails boolean NOT NULL DEFAULT false,
  role text NOT NULL DEFAULT 'User' CHECK (role IN ('Admin', 'User')),
  -- Raised by a password change and by deletion: a JWT that carries a smaller one is dead.
  epoch integer NOT NULL DEFAULT 1,
  totp_secret bytea,
  totp_enabled boolean NOT NULL DEFAULT false,
  -- The newest time step whose code was accepted; a code is never accepted twice.
  totp_last_step bigint NOT NULL DEFAULT 0,
  default_project_id uuid,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX account_email ON account (email);

CREATE TABLE recovery_code (
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  hash bytea NOT NULL,
  PRIMARY KEY (account_id, hash)
);

CREATE TABLE project (
  id uuid PRIMARY KEY,
  slug text NOT NULL,
  name text NOT NULL,
  plan text NOT NULL,
  -- /64 of every VM address in the project.
  ipv6_prefix text NOT NULL,
  want text NOT NULL DEFAULT 'live' CHECK (want IN ('live', 'deleted')),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX project_slug ON project (slug);
CREATE UNIQUE INDEX project_ipv6_prefix ON project (ipv6_prefix);

CREATE TABLE project_member (
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, account_id)
);
CREATE INDEX project_member_account ON project_member (account_id);

CREATE TABLE project_invitation (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  email text NOT NULL CHECK (email = lower(email)),
  role text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
  invited_by uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX project_invitation_email ON project_invitation (project_id, email);
CREATE INDEX project_invitation_by_email ON project_invitation (email);
CREATE INDEX project_invitation_expiry ON project_invitation (expires_at);

-- A session lives from a login to its revocation; its age is what "recently signed in" means.
CREATE TABLE session (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  ip_address text,
  user_agent text,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);
CREATE INDEX session_account ON session (account_id, ip_address);
CREATE INDEX session_age ON session (created_at);

-- Every refresh token of a session, used ones too: presenting a used one is how theft shows.
CREATE TABLE refresh_token (
  hash bytea PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES session ON DELETE CASCADE,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);
CREATE INDEX refresh_token_session ON refresh_token (session_id);
CREATE INDEX refresh_token_expiry ON refresh_token (expires_at);

CREATE TABLE pat (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  project_id uuid REFERENCES project ON DELETE CASCADE,
  name text NOT NULL,
  hash bytea NOT NULL,
  last_four text NOT NULL,
  scopes text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz,
  expires_at timestamptz
);
CREATE UNIQUE INDEX pat_hash ON pat (hash);
CREATE INDEX pat_account ON pat (account_id);

CREATE TABLE captcha (
  id uuid PRIMARY KEY,
  answer_hash bytea NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX captcha_expiry ON captcha (expires_at);

-- Failed sign-ins per e-mail and address, and per account: who fails often waits. Keyed hashes, so that the table is
-- no list of addresses people mistyped.
CREATE TABLE login_backoff (
  key bytea PRIMARY KEY,
  failures integer NOT NULL,
  blocked_until timestamptz NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX login_backoff_age ON login_backoff (updated_at);
