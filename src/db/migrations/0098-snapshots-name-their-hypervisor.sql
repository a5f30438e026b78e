-- Only it can go on from them. Null: made before this, and its VM is no more.
ALTER TABLE vm_snapshot ADD COLUMN hypervisor text;
UPDATE vm_snapshot s SET hypervisor = v.hypervisor FROM vm v WHERE v.id = s.vm_id;
