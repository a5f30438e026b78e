-- Environment of an app, values sealed; a deployment keeps the values it was made with, so that all its VMs are alike.
CREATE TABLE app_env (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  name text NOT NULL,
  value bytea NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (app_id, name)
);
CREATE TABLE deployment_env (
  deployment_id uuid NOT NULL REFERENCES deployment ON DELETE CASCADE,
  name text NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (deployment_id, name)
);
