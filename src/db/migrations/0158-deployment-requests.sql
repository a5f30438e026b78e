-- Requests of each deployment, as gateways report them. Not columns of `deployment`, whose rows workflows lock.
CREATE TABLE deployment_requests (
  deployment_id uuid PRIMARY KEY REFERENCES deployment ON DELETE CASCADE,
  requests bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0
);
