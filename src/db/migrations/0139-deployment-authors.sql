-- The account that requested the deployment, or activated it last. No foreign key: an account that leaves takes its
-- name along, and deleting it must not write to every deployment.
ALTER TABLE deployment ADD COLUMN author_id uuid;
-- The author of a push, as the git host names it; such a deployment has no account.
ALTER TABLE deployment ADD COLUMN git_author text NOT NULL DEFAULT '';
-- When it was last activated; null: never, so its rollout was requested when it was created.
ALTER TABLE deployment ADD COLUMN activated_at timestamptz;
-- The health check of the app when the deployment was created; null for deployments of earlier versions.
ALTER TABLE deployment ADD COLUMN health_check_path text;
