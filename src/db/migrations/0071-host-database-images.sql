-- Images of database engines that the host has, such as `postgres:15`; null: it does not say.
ALTER TABLE host ADD COLUMN database_images jsonb;
