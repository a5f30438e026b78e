-- The IPv4 network of a host's guests and the address its gateway speaks from: how gateways reach apps on other hosts.
ALTER TABLE mesh_host
  ADD COLUMN guests text,
  ADD COLUMN gateway text;
