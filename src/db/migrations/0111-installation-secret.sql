-- A keyed hash of a constant under the oldest secret of the installation: a control plane with another secret does not start.
CREATE TABLE installation_secret (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  -- Null: the secret of the next start is recorded.
  fingerprint bytea
);
