-- Public keys that open tunnels to databases, instead of a token.
CREATE TABLE ssh_key (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  name text NOT NULL,
  -- RFC 4253, 6.6, in base64, and its SHA-256 fingerprint as ssh-keygen -l writes it.
  public_key text NOT NULL,
  fingerprint text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz
);
CREATE UNIQUE INDEX ssh_key_fingerprint ON ssh_key (account_id, fingerprint);
