-- What a branch is put back to, when that is an instant and no snapshot.
ALTER TABLE branch ADD COLUMN restore_moment text;
-- Where backups and log go, when that is not the branch's own volume: JSON, sealed.
ALTER TABLE database ADD COLUMN backup_target bytea;
