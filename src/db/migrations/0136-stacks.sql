-- Arguments that replace those of the image, whose entrypoint stays; empty: those of the image. A deployment keeps the app's.
ALTER TABLE app ADD COLUMN arguments text[] NOT NULL DEFAULT '{}';
ALTER TABLE deployment ADD COLUMN arguments text[] NOT NULL DEFAULT '{}';
-- Name of the compose file's stack that the app belongs to.
ALTER TABLE app ADD COLUMN stack text;
