-- A page of live deployments skips those before it by this index alone.
DROP INDEX deployment_live;
CREATE INDEX deployment_live ON deployment (project_id, id DESC) INCLUDE (app_id, want) WHERE outcome IS NULL;
CREATE INDEX app_owned ON app (project_id, id) WHERE owner <> 'user';
