-- The prefix that projects get their /64 from: a random unique local one (RFC 4193) until a setting says otherwise. Its
-- first /64 is that of the hosts.
CREATE TABLE private_network (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  ipv6_prefix text NOT NULL
);
INSERT INTO private_network (ipv6_prefix)
SELECT 'fd' || substr(hex, 1, 2) || ':' || substr(hex, 3, 4) || ':' || substr(hex, 7, 4) || '::/48'
FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS hex) random;

-- A host's side of the mesh, as its beats tell. The private half of the key never leaves the host.
CREATE TABLE mesh_host (
  host_id uuid PRIMARY KEY REFERENCES host,
  public_key text NOT NULL,
  endpoint text NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT now()
);

-- Whatever hosts are told of networks is made of these; each control plane hears it and tells the hosts.
CREATE FUNCTION notify_network() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('network', '');
  RETURN NULL;
END $$;
CREATE TRIGGER vm_network AFTER UPDATE ON vm FOR EACH ROW
  WHEN ((OLD.host_id, OLD.healthy, OLD.want) IS DISTINCT FROM (NEW.host_id, NEW.healthy, NEW.want))
  EXECUTE FUNCTION notify_network();
CREATE TRIGGER vm_network_gone AFTER DELETE ON vm FOR EACH ROW EXECUTE FUNCTION notify_network();
CREATE TRIGGER app_network AFTER UPDATE ON app FOR EACH ROW
  WHEN (OLD.active_deployment_id IS DISTINCT FROM NEW.active_deployment_id)
  EXECUTE FUNCTION notify_network();
CREATE TRIGGER mesh_network AFTER INSERT OR UPDATE OR DELETE ON mesh_host FOR EACH ROW EXECUTE FUNCTION notify_network();
