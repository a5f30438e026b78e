-- Of verified domains, by ACME (RFC 8555).
CREATE TABLE certificate (
  domain_id uuid PRIMARY KEY REFERENCES domain ON DELETE CASCADE,
  -- PEM, its own first. Null until the first one.
  chain text,
  -- Sealed.
  private_key bytea,
  not_before timestamptz,
  not_after timestamptz,
  failures integer NOT NULL DEFAULT 0,
  -- Why there is none, or no newer one.
  message text,
  next_try_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((chain IS NULL) = (private_key IS NULL))
);
-- One for each certificate authority.
CREATE TABLE acme_account (
  directory text PRIMARY KEY,
  -- Sealed.
  key bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- What gateways answer while a certificate is being asked for.
CREATE TABLE acme_challenge (
  token text PRIMARY KEY,
  hostname text NOT NULL,
  key_authorization text NOT NULL,
  expires_at timestamptz NOT NULL
);
