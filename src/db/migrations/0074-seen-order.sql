-- When the host said what is recorded of the VM, in microseconds of its clock: what it said before is older news, whichever way
-- it came (VmObserved.atUs of the contract).
ALTER TABLE vm ADD COLUMN seen_at_us bigint NOT NULL DEFAULT 0;
