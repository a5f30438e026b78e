-- Network rules of an app; every VM of it follows all of them.
CREATE TABLE security_rule (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES project,
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  direction text NOT NULL CHECK (direction IN ('inbound', 'outbound')),
  protocol text NOT NULL CHECK (protocol IN ('tcp', 'udp', 'icmp', 'any')),
  port_start integer NOT NULL CHECK (port_start >= 0),
  port_end integer NOT NULL CHECK (port_end >= port_start AND port_end <= 65535),
  action text NOT NULL CHECK (action IN ('allow', 'deny')),
  -- The other side; null: everywhere.
  cidr text,
  -- Lower comes first; of equal ones the older.
  priority integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX security_rule_app ON security_rule (app_id, priority, id);

-- Grows with every change of the app's rules: what hosts acknowledge.
ALTER TABLE app ADD COLUMN firewall_version integer NOT NULL DEFAULT 0;
-- What the VM's host last said of its rules (FirewallObserved).
ALTER TABLE vm ADD COLUMN seen_firewall jsonb;
