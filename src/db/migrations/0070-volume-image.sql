-- A new volume begins with what this image has for volumes; empty: with nothing.
ALTER TABLE volume ADD COLUMN image text NOT NULL DEFAULT '';
