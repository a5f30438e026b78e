-- Slugs of deleted projects, which no other project gets: repositories of the registry, and hostnames, begin with or
-- contain them. Hashed, because a slug may be made from the name of a person.
CREATE TABLE retired_slug (
  slug_hash bytea PRIMARY KEY
);
