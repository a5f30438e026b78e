-- A VM that is about to leave its host waits for its requests: since when gateways hold new ones, and since when it may go.
ALTER TABLE migration ADD COLUMN held_at timestamptz, ADD COLUMN released_at timestamptz;
-- What gateways are told of such VMs: [{vmId, moveId}].
ALTER TABLE route ADD COLUMN leaving jsonb NOT NULL DEFAULT '[]';
