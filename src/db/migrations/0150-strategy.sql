-- How a new version replaces the active one. `one-at-a-time`: an old VM ends before a new one starts, so never more VMs run than the app wants.
ALTER TABLE app ADD COLUMN strategy text NOT NULL DEFAULT 'rolling' CHECK (strategy IN ('rolling', 'one-at-a-time'));
