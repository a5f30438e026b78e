-- Names of their own that people point at their apps.
CREATE TABLE domain (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  -- Lower case, in ASCII (RFC 5890, A-labels), without a final dot.
  name text NOT NULL,
  -- What the TXT record must say.
  token text NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'verified', 'lost')),
  -- Why the last look did not find it.
  message text,
  -- Looks in a row that did not find the record.
  misses integer NOT NULL DEFAULT 0,
  checked_at timestamptz,
  next_check_at timestamptz NOT NULL DEFAULT now(),
  verified_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- Anybody may ask for a name; one at a time has it.
CREATE UNIQUE INDEX domain_verified ON domain (name) WHERE state = 'verified';
CREATE UNIQUE INDEX domain_of_app ON domain (app_id, name);
CREATE INDEX domain_due ON domain (next_check_at);
