-- How large the volume's host has made it. Smaller than `size_mib`: it is to grow.
ALTER TABLE volume ADD COLUMN grown_mib integer NOT NULL DEFAULT 0;
UPDATE volume SET grown_mib = size_mib;
-- Counts the owner's passwords: of the database the newest, of a branch the one that its server knows.
ALTER TABLE database ADD COLUMN password_revision integer NOT NULL DEFAULT 1;
ALTER TABLE branch ADD COLUMN password_revision integer NOT NULL DEFAULT 1;
