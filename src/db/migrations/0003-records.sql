-- The outbox: rows appear in the transaction that changes something; the relay gives them their place in the order
-- (`position`, what clients see as the event id) once no older transaction can still add one, and publishes them.
CREATE TABLE event (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  position bigint,
  project_id uuid NOT NULL,
  kind text NOT NULL,
  app_id uuid,
  deployment_id uuid,
  data jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE SEQUENCE event_position;
CREATE INDEX event_unplaced ON event (seq) WHERE position IS NULL;
CREATE UNIQUE INDEX event_by_project ON event (project_id, position) WHERE position IS NOT NULL;
CREATE UNIQUE INDEX event_position_order ON event (position) WHERE position IS NOT NULL;
CREATE INDEX event_age ON event (created_at);

-- Append-only. `seq` and `xid` put rows into the order of commits; the sealer then gives each its place in a keyed hash
-- chain. Unsealed rows are at most a second or so old.
CREATE TABLE audit_log (
  id uuid PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  -- The nil UUID where nobody could be identified.
  account_id uuid NOT NULL,
  project_id uuid,
  -- Who may read it: the members of the project, else the account alone.
  scope_id uuid NOT NULL GENERATED ALWAYS AS (coalesce(project_id, account_id)) STORED,
  action text NOT NULL,
  resource_type text NOT NULL,
  resource_id text,
  details jsonb NOT NULL,
  ip_address text,
  -- The session or token that acted.
  credential text,
  request_id text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  position bigint,
  hash bytea,
  CHECK ((position IS NULL) = (hash IS NULL))
);
CREATE INDEX audit_log_scope ON audit_log (scope_id, id DESC);
CREATE INDEX audit_log_action ON audit_log (scope_id, action, id DESC);
CREATE INDEX audit_log_resource ON audit_log (scope_id, resource_type, id DESC);
CREATE INDEX audit_log_unsealed ON audit_log (seq) WHERE position IS NULL;
CREATE UNIQUE INDEX audit_log_position ON audit_log (position) WHERE position IS NOT NULL;

-- Where the chain starts (what retention removed before) and where it ends.
CREATE TABLE audit_chain (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  first_position bigint NOT NULL,
  first_hash bytea NOT NULL,
  last_position bigint NOT NULL,
  last_hash bytea NOT NULL
);
INSERT INTO audit_chain (first_position, first_hash, last_position, last_hash) VALUES (0, '', 0, '');

-- Sealed rows per scope, action and resource type: what `total` adds up instead of counting a million rows.
CREATE TABLE audit_count (
  scope_id uuid NOT NULL,
  action text NOT NULL,
  resource_type text NOT NULL,
  rows bigint NOT NULL,
  PRIMARY KEY (scope_id, action, resource_type)
);

-- A row may be sealed once, and removed only by retention, which says so in its transaction.
CREATE FUNCTION audit_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    -- The generated column is computed only after this trigger.
    IF OLD.position IS NULL AND NEW.position IS NOT NULL
      AND to_jsonb(NEW) - '{position,hash,scope_id}'::text[] = to_jsonb(OLD) - '{position,hash,scope_id}'::text[] THEN
      RETURN NEW;
    END IF;
  ELSIF TG_OP = 'DELETE' AND OLD.position IS NOT NULL AND current_setting('mote.audit_retention', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'audit_log is append-only';
END $$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
  FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();

CREATE TABLE notification (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
  title text NOT NULL,
  body text NOT NULL,
  kind text NOT NULL,
  entity_name text NOT NULL,
  resource_id text NOT NULL,
  route text NOT NULL,
  metadata jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  read_at timestamptz,
  -- E-mail outbox: null where none is wanted or it is settled.
  email_due_at timestamptz,
  email_attempt integer NOT NULL DEFAULT 0,
  -- Null, 'sent' or 'failed'.
  email_outcome text CHECK (email_outcome IN ('sent', 'failed'))
);
CREATE INDEX notification_email_due ON notification (email_due_at) WHERE email_due_at IS NOT NULL;
CREATE INDEX notification_project ON notification (project_id);
CREATE INDEX notification_account ON notification (account_id, id DESC);
CREATE INDEX notification_unread ON notification (account_id, id DESC) WHERE read_at IS NULL;

CREATE TABLE idempotency_key (
  account_id uuid NOT NULL,
  key text NOT NULL,
  fingerprint bytea NOT NULL,
  status integer,
  -- The answer, sealed: it may hold a token that is shown once.
  answer bytea,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);
