-- What billing knows of a project. No reference to the project: what was sold must be ended after the project is gone.
CREATE TABLE billing_account (
  project_id uuid PRIMARY KEY,
  selected_product_id text,
  customer_id text,
  -- When the provider is asked next whether we missed something.
  check_at timestamptz
);
CREATE INDEX billing_account_check ON billing_account (check_at) WHERE check_at IS NOT NULL;

-- The newest state of each subscription, newest by the provider's own clock.
CREATE TABLE billing_subscription (
  provider text NOT NULL,
  id text NOT NULL,
  project_id uuid NOT NULL,
  customer_id text,
  product_id text NOT NULL,
  state text NOT NULL
    CHECK (state IN ('incomplete', 'trialing', 'active', 'past_due', 'unpaid', 'paused', 'canceled')),
  amount_cents integer,
  currency text,
  period_start timestamptz,
  period_end timestamptz,
  cancel_at_period_end boolean NOT NULL,
  modified_at timestamptz NOT NULL,
  PRIMARY KEY (provider, id)
);
CREATE INDEX billing_subscription_project ON billing_subscription (project_id);

-- Ids of webhook deliveries that have had their effect.
CREATE TABLE billing_delivery (
  provider text NOT NULL,
  id text NOT NULL,
  kind text NOT NULL,
  received_at timestamptz NOT NULL,
  PRIMARY KEY (provider, id)
);
CREATE INDEX billing_delivery_age ON billing_delivery (received_at);

-- The provider's products as last read.
CREATE TABLE billing_product (
  provider text NOT NULL,
  id text NOT NULL,
  name text NOT NULL,
  description text,
  is_archived boolean NOT NULL,
  -- From the product's metadata; the configuration may name another.
  plan text,
  price_id text,
  price_amount_cents integer,
  currency text,
  recurring_interval text,
  PRIMARY KEY (provider, id)
);
CREATE TABLE billing_catalogue (
  provider text PRIMARY KEY,
  last_synced_at timestamptz,
  stale boolean NOT NULL DEFAULT false
);

-- The local provider. Nothing outside src/control/billing/sandbox reads these.
CREATE TABLE billing_sandbox_session (
  hash bytea PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('checkout', 'portal')),
  project_id uuid NOT NULL,
  product_id text,
  expires_at timestamptz NOT NULL,
  used_at timestamptz
);
CREATE TABLE billing_sandbox_subscription (
  id text PRIMARY KEY,
  project_id uuid NOT NULL,
  product_id text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'past_due', 'canceled')),
  -- Whether the card will be charged at the next renewal.
  pays boolean NOT NULL DEFAULT true,
  period_start timestamptz NOT NULL,
  period_end timestamptz NOT NULL,
  cancel_at_period_end boolean NOT NULL DEFAULT false,
  modified_at timestamptz NOT NULL
);
CREATE INDEX billing_sandbox_subscription_project ON billing_sandbox_subscription (project_id);
CREATE TABLE billing_sandbox_event (
  id text PRIMARY KEY,
  body text NOT NULL,
  created_at timestamptz NOT NULL,
  delivered_at timestamptz
);
CREATE INDEX billing_sandbox_event_due ON billing_sandbox_event (created_at) WHERE delivered_at IS NULL;
