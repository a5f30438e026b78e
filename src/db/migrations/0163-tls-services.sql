-- TCP services that clients select by TLS server name on a shared port. Server names are the hostnames of the app, so an
-- app has one such service. A table of its own, because earlier releases expect a public port in each row of tcp_service.
CREATE TABLE tls_service (
  app_id uuid PRIMARY KEY REFERENCES app ON DELETE CASCADE,
  name text NOT NULL,
  -- In the VM.
  port integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
  created_at timestamptz NOT NULL DEFAULT now()
);
