-- Null: nobody has shown yet that mail to the address reaches the account.
ALTER TABLE account ADD COLUMN email_verified_at timestamptz;
-- Secrets that were sent to an address, as keyed hashes. At most one of each purpose for an account: a newer one replaces it.
CREATE TABLE email_link (
  account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  purpose text NOT NULL CHECK (purpose IN ('verify', 'reset', 'change')),
  hash bytea NOT NULL,
  -- The address that it proves; with `change` the one that the account gets.
  email text NOT NULL CHECK (email = lower(email)),
  -- Of the account when it was made: a password change in between ends it.
  epoch integer NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (account_id, purpose)
);
CREATE UNIQUE INDEX email_link_hash ON email_link (hash);
CREATE INDEX email_link_expires ON email_link (expires_at);
-- Invitations from before this have none: they are accepted by a verified address only.
ALTER TABLE project_invitation ADD COLUMN secret_hash bytea;
-- Mail to addresses, which need not be those of an account. A row leaves once it was sent or has failed.
CREATE TABLE outgoing_mail (
  id uuid PRIMARY KEY,
  recipient text NOT NULL,
  subject text NOT NULL,
  -- Sealed: it holds links that are as good as a password.
  body bytea NOT NULL,
  due_at timestamptz NOT NULL,
  attempt integer NOT NULL DEFAULT 0
);
CREATE INDEX outgoing_mail_due ON outgoing_mail (due_at);
