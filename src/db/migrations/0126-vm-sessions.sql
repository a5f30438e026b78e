-- Programs that run in VMs beside the app: terminals and commands. The guest has the process; this row says whose it is.
CREATE TABLE vm_session (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  deployment_id uuid NOT NULL REFERENCES deployment ON DELETE CASCADE,
  vm_id uuid NOT NULL,
  account_id uuid NOT NULL,
  -- Hash of the account and the Idempotency-Key: a repeated request finds the session it has opened.
  request_hash bytea UNIQUE,
  program text NOT NULL,
  tty boolean NOT NULL,
  -- Without a client for this long, the program is ended. Null: never.
  idle_seconds integer,
  -- The newest attachment. An older one ends when it sees that it was replaced.
  attachment uuid,
  opened_at timestamptz NOT NULL DEFAULT now(),
  -- When a client was last attached.
  seen_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  outcome text CHECK (outcome IN ('exited', 'signaled', 'lost')),
  code integer,
  -- The guest has freed the session.
  removed boolean NOT NULL DEFAULT false,
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX vm_session_open ON vm_session (project_id) WHERE ended_at IS NULL;
CREATE INDEX vm_session_of_deployment ON vm_session (deployment_id, id);
CREATE INDEX vm_session_in_guests ON vm_session (vm_id) WHERE NOT removed;
CREATE INDEX vm_session_ended ON vm_session (ended_at) WHERE removed;
