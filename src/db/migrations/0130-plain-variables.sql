-- A variable is plain, so that its value may be read again, as long as this is the time of its last change. The previous
-- release does not know the column: a value that it sets is a secret.
ALTER TABLE app_env ADD COLUMN plain_at timestamptz;
-- When a setting that takes effect with the next deployment last changed. Null: never since this column exists.
ALTER TABLE app ADD COLUMN settings_changed_at timestamptz;
