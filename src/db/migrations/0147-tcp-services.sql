-- Ports of gateways that lead to a TCP port of an app.
CREATE TABLE tcp_service (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  name text NOT NULL,
  -- In the VM.
  port integer NOT NULL CHECK (port BETWEEN 1 AND 65535),
  -- On every gateway.
  public_port integer NOT NULL UNIQUE CHECK (public_port BETWEEN 1 AND 65535),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (app_id, name)
);
