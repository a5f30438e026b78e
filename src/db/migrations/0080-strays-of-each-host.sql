-- A VM may have been given up on more than one host: by its own loss and by a move. Each keeps the room of it.
ALTER TABLE stray DROP CONSTRAINT stray_pkey, ADD PRIMARY KEY (host_id, vm_id);
DROP INDEX stray_host;
