-- Settings of the canary phase of new versions; null: a healthy new version gets all requests at once. A deployment keeps the app's.
ALTER TABLE app ADD COLUMN canary jsonb;
ALTER TABLE deployment ADD COLUMN canary jsonb;
-- Null: the deployment has not been a canary.
ALTER TABLE deployment ADD COLUMN canary_state text CHECK (canary_state IN ('running', 'passed', 'failed', 'cancelled'));
ALTER TABLE deployment ADD COLUMN canary_started_at timestamptz;
ALTER TABLE deployment ADD COLUMN canary_ended_at timestamptz;
-- As counted by the gateways.
ALTER TABLE deployment ADD COLUMN canary_requests bigint NOT NULL DEFAULT 0;
ALTER TABLE deployment ADD COLUMN canary_failed bigint NOT NULL DEFAULT 0;
CREATE INDEX deployment_canary ON deployment (app_id, rollout) WHERE canary_state = 'running';
-- Backends of the new version and their share of the requests; null: there is no canary.
ALTER TABLE route ADD COLUMN canary jsonb;
