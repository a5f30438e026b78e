-- The IPv4 network (/20) that a host of the mesh was given for its guests; `guests` is what it really has.
ALTER TABLE mesh_host ADD COLUMN assigned text UNIQUE;
