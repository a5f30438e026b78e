-- The page server that has the tenant, chosen when the database is made. Null: its data is on volumes, and no page server may ask for it.
ALTER TABLE database ALTER COLUMN storage_node DROP DEFAULT, ALTER COLUMN storage_node DROP NOT NULL;
UPDATE database SET storage_node = NULL WHERE backend <> 'neon';
ALTER TABLE database ADD CONSTRAINT database_storage_node_check CHECK ((storage_node IS NULL) = (backend <> 'neon'));
