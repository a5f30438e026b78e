-- How an app is built: its Dockerfile, arguments, and the names of the variables that the build gets; null: as its files
-- say. A build keeps those of its request. Values of variables are read from deployment_env.
ALTER TABLE app ADD COLUMN build jsonb;
ALTER TABLE build ADD COLUMN settings jsonb;
