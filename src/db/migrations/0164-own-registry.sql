-- The registry that a control plane has started by default: only one of them does, because each has images of its own.
CREATE TABLE own_registry (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  -- Made with the directory of its images.
  id uuid NOT NULL,
  url text NOT NULL
);
