-- W3C Trace Context of the request that made the deployment; it travels with the wishes of its VMs to their hosts.
ALTER TABLE deployment ADD COLUMN traceparent text;
