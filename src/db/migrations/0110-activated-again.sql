-- It was activated while it was being taken down: once it is, it is rolled out again.
ALTER TABLE deployment ADD COLUMN reactivated boolean NOT NULL DEFAULT false;
