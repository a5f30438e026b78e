-- Program and arguments that replace those of the image; empty: those of the image. A deployment keeps the app's.
ALTER TABLE app ADD COLUMN command text[] NOT NULL DEFAULT '{}';
ALTER TABLE deployment ADD COLUMN command text[] NOT NULL DEFAULT '{}';
-- A worker gets no requests: it has no route, no health check over the network, and never sleeps.
ALTER TABLE app ADD COLUMN kind text NOT NULL DEFAULT 'web' CHECK (kind IN ('web', 'worker'));
-- Deployments of a worker get the environment of this app, and it is deleted with that app.
ALTER TABLE app ADD COLUMN env_of uuid REFERENCES app ON DELETE SET NULL;
CREATE INDEX app_env_of ON app (env_of) WHERE env_of IS NOT NULL;
