-- Labels as the agent reports them, and those that operators have set, which win.
ALTER TABLE host ADD COLUMN agent_labels jsonb NOT NULL DEFAULT '{}';
ALTER TABLE host ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
-- Labels that an app requires and prefers: {"require": {}, "prefer": {}}; null: none.
ALTER TABLE app ADD COLUMN hosts jsonb;
