-- Deliveries of git hosts, so that each counts once. `source`: the integration, or the app whose secret signed it.
CREATE TABLE scm_delivery (
  source text NOT NULL,
  id text NOT NULL,
  event text NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (source, id)
);
CREATE INDEX scm_delivery_received ON scm_delivery (received_at);

-- Installations of the integration on accounts of the source host. Deleted ones stay: an older event may still come.
CREATE TABLE scm_installation (
  id bigint PRIMARY KEY,
  login text NOT NULL,
  account_type text NOT NULL,
  avatar_url text,
  state text NOT NULL CHECK (state IN ('active', 'suspended', 'deleted')),
  -- By the source host's clock: an older event changes nothing.
  changed_at timestamptz NOT NULL
);
-- Which project may use which installation: bound by a person who was sent there from here.
CREATE TABLE scm_binding (
  installation_id bigint NOT NULL,
  project_id uuid NOT NULL REFERENCES project ON DELETE CASCADE,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (installation_id, project_id)
);
CREATE INDEX scm_binding_project ON scm_binding (project_id);
-- States of an installation that was begun here and used once.
CREATE TABLE scm_state (
  id uuid PRIMARY KEY,
  used_at timestamptz NOT NULL DEFAULT now()
);

-- What an event last said of a repository, newest by the source host's clock.
CREATE TABLE scm_repository (
  id bigint PRIMARY KEY,
  full_name text NOT NULL,
  is_deleted boolean NOT NULL DEFAULT false,
  changed_at timestamptz NOT NULL
);
-- The newest push of a branch of an app that was acted on.
CREATE TABLE scm_push (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  branch text NOT NULL,
  pushed_at timestamptz NOT NULL,
  commit_hash text NOT NULL,
  PRIMARY KEY (app_id, branch)
);
CREATE INDEX app_scm_repo ON app (scm_repo_id) WHERE want = 'live';
CREATE INDEX app_by_name ON app (name) WHERE want = 'live';

-- An app that shows a pull request of another one. It goes when the pull request is closed.
CREATE TABLE scm_preview (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  number integer NOT NULL,
  state text NOT NULL CHECK (state IN ('open', 'closed')),
  changed_at timestamptz NOT NULL,
  preview_app_id uuid,
  PRIMARY KEY (app_id, number)
);

-- What the source host was last told about a deployment.
CREATE TABLE scm_report (
  deployment_id uuid PRIMARY KEY REFERENCES deployment ON DELETE CASCADE,
  told text,
  tries integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT now()
);
