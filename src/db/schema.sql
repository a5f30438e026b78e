-- Written by src/db/dump.ts (UPDATE_SCHEMA=1 vitest run src/db): the schema after all migrations.

CREATE TABLE account (
  avatar_url text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  default_project_id uuid,
  email text NOT NULL,
  email_notifications boolean NOT NULL DEFAULT true,
  email_verified_at timestamp with time zone,
  epoch integer NOT NULL DEFAULT 1,
  first_name text,
  id uuid NOT NULL,
  last_name text,
  marketing_emails boolean NOT NULL DEFAULT false,
  password_hash text NOT NULL,
  role text NOT NULL DEFAULT 'User'::text,
  totp_enabled boolean NOT NULL DEFAULT false,
  totp_last_step bigint NOT NULL DEFAULT 0,
  totp_secret bytea,
  CONSTRAINT account_email_check CHECK ((email = lower(email))),
  CONSTRAINT account_pkey PRIMARY KEY (id),
  CONSTRAINT account_role_check CHECK ((role = ANY (ARRAY['Admin'::text, 'User'::text])))
);

CREATE TABLE acme_account (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  directory text NOT NULL,
  key bytea NOT NULL,
  CONSTRAINT acme_account_pkey PRIMARY KEY (directory)
);

CREATE TABLE acme_challenge (
  expires_at timestamp with time zone NOT NULL,
  hostname text NOT NULL,
  key_authorization text NOT NULL,
  token text NOT NULL,
  CONSTRAINT acme_challenge_pkey PRIMARY KEY (token)
);

CREATE TABLE alert (
  closed_at timestamp with time zone,
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  kind text NOT NULL,
  machine_id uuid NOT NULL,
  opened_at timestamp with time zone NOT NULL DEFAULT now(),
  phase text NOT NULL,
  CONSTRAINT alert_pkey PRIMARY KEY (id)
);

CREATE TABLE app (
  active_deployment_id uuid,
  arguments text[] NOT NULL DEFAULT '{}'::text[],
  autoscaling_enabled boolean NOT NULL,
  build jsonb,
  canary jsonb,
  command text[] NOT NULL DEFAULT '{}'::text[],
  cpu_threshold double precision NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  desired_replicas integer NOT NULL,
  drain_timeout integer NOT NULL,
  env_of uuid,
  firewall_version integer NOT NULL DEFAULT 0,
  git_branch text NOT NULL DEFAULT ''::text,
  git_submodules boolean NOT NULL DEFAULT false,
  git_url text NOT NULL,
  health_check_path text NOT NULL,
  hostname text NOT NULL,
  hosts jsonb,
  id uuid NOT NULL,
  kind text NOT NULL DEFAULT 'web'::text,
  last_request_at timestamp with time zone,
  max_replicas integer NOT NULL,
  mem_threshold double precision NOT NULL,
  min_replicas integer NOT NULL,
  name text NOT NULL,
  owner text NOT NULL DEFAULT 'user'::text,
  owner_id uuid,
  port integer NOT NULL,
  project_id uuid NOT NULL,
  release_command text[],
  restart jsonb,
  scale_changed_at timestamp with time zone NOT NULL DEFAULT now(),
  scale_state text NOT NULL DEFAULT 'active'::text,
  scaled_at timestamp with time zone,
  scm_installation_id bigint,
  scm_repo_full_name text,
  scm_repo_id bigint,
  scm_webhook_secret bytea NOT NULL,
  settings_changed_at timestamp with time zone,
  stack text,
  strategy text NOT NULL DEFAULT 'rolling'::text,
  want text NOT NULL DEFAULT 'live'::text,
  CONSTRAINT app_env_of_fkey FOREIGN KEY (env_of) REFERENCES app(id) ON DELETE SET NULL,
  CONSTRAINT app_kind_check CHECK ((kind = ANY (ARRAY['web'::text, 'worker'::text]))),
  CONSTRAINT app_owner_check CHECK ((owner = ANY (ARRAY['user'::text, 'database'::text]))),
  CONSTRAINT app_pkey PRIMARY KEY (id),
  CONSTRAINT app_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT app_scale_state_check CHECK ((scale_state = ANY (ARRAY['active'::text, 'idle'::text, 'scaled_to_zero'::text, 'warming_up'::text]))),
  CONSTRAINT app_strategy_check CHECK ((strategy = ANY (ARRAY['rolling'::text, 'one-at-a-time'::text]))),
  CONSTRAINT app_want_check CHECK ((want = ANY (ARRAY['live'::text, 'deleted'::text])))
);

CREATE TABLE app_env (
  app_id uuid NOT NULL,
  name text NOT NULL,
  plain_at timestamp with time zone,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  value bytea NOT NULL,
  CONSTRAINT app_env_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT app_env_pkey PRIMARY KEY (app_id, name)
);

CREATE TABLE app_env_group (
  app_id uuid NOT NULL,
  group_id uuid NOT NULL,
  "position" integer NOT NULL,
  CONSTRAINT app_env_group_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT app_env_group_group_id_fkey FOREIGN KEY (group_id) REFERENCES env_group(id) ON DELETE CASCADE,
  CONSTRAINT app_env_group_pkey PRIMARY KEY (app_id, group_id)
);

CREATE TABLE app_file (
  app_id uuid NOT NULL,
  content bytea,
  mode integer NOT NULL,
  path text NOT NULL,
  sha256 text,
  size_bytes integer NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  variable text,
  CONSTRAINT app_file_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT app_file_check CHECK (((content IS NULL) <> (variable IS NULL))),
  CONSTRAINT app_file_pkey PRIMARY KEY (app_id, path)
);

CREATE TABLE app_history (
  aborted bigint NOT NULL DEFAULT 0,
  app_id uuid NOT NULL,
  at timestamp with time zone NOT NULL,
  bytes_in bigint NOT NULL DEFAULT 0,
  bytes_out bigint NOT NULL DEFAULT 0,
  cpu_peak double precision NOT NULL DEFAULT 0,
  cpu_sum double precision NOT NULL DEFAULT 0,
  gateway_errors bigint NOT NULL DEFAULT 0,
  latency bigint[],
  memory_sum double precision NOT NULL DEFAULT 0,
  ram_peak double precision NOT NULL DEFAULT 0,
  ram_sum double precision NOT NULL DEFAULT 0,
  replicas_sum bigint NOT NULL DEFAULT 0,
  rx_bytes bigint NOT NULL DEFAULT 0,
  samples integer NOT NULL DEFAULT 0,
  status_1xx bigint NOT NULL DEFAULT 0,
  status_2xx bigint NOT NULL DEFAULT 0,
  status_3xx bigint NOT NULL DEFAULT 0,
  status_4xx bigint NOT NULL DEFAULT 0,
  status_5xx bigint NOT NULL DEFAULT 0,
  step_seconds integer NOT NULL,
  tx_bytes bigint NOT NULL DEFAULT 0,
  CONSTRAINT app_history_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT app_history_pkey PRIMARY KEY (app_id, step_seconds, at)
);

CREATE TABLE audit_chain (
  first_hash bytea NOT NULL,
  first_position bigint NOT NULL,
  last_hash bytea NOT NULL,
  last_position bigint NOT NULL,
  singleton boolean NOT NULL DEFAULT true,
  CONSTRAINT audit_chain_pkey PRIMARY KEY (singleton),
  CONSTRAINT audit_chain_singleton_check CHECK (singleton)
);

CREATE TABLE audit_count (
  action text NOT NULL,
  resource_type text NOT NULL,
  rows bigint NOT NULL,
  scope_id uuid NOT NULL,
  CONSTRAINT audit_count_pkey PRIMARY KEY (scope_id, action, resource_type)
);

CREATE TABLE audit_log (
  account_id uuid NOT NULL,
  action text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  credential text,
  details jsonb NOT NULL,
  hash bytea,
  id uuid NOT NULL,
  ip_address text,
  "position" bigint,
  project_id uuid,
  request_id text,
  resource_id text,
  resource_type text NOT NULL,
  scope_id uuid NOT NULL GENERATED ALWAYS AS (COALESCE(project_id, account_id)) STORED,
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT audit_log_check CHECK ((("position" IS NULL) = (hash IS NULL))),
  CONSTRAINT audit_log_pkey PRIMARY KEY (id)
);

CREATE TABLE bastion_key (
  public_key text NOT NULL,
  seen_at timestamp with time zone NOT NULL,
  CONSTRAINT bastion_key_pkey PRIMARY KEY (public_key)
);

CREATE TABLE billing_account (
  check_at timestamp with time zone,
  checkout_at timestamp with time zone NOT NULL DEFAULT now(),
  customer_id text,
  project_id uuid NOT NULL,
  selected_product_id text,
  CONSTRAINT billing_account_pkey PRIMARY KEY (project_id)
);

CREATE TABLE billing_catalogue (
  last_synced_at timestamp with time zone,
  provider text NOT NULL,
  stale boolean NOT NULL DEFAULT false,
  CONSTRAINT billing_catalogue_pkey PRIMARY KEY (provider)
);

CREATE TABLE billing_delivery (
  id text NOT NULL,
  kind text NOT NULL,
  provider text NOT NULL,
  received_at timestamp with time zone NOT NULL,
  CONSTRAINT billing_delivery_pkey PRIMARY KEY (provider, id)
);

CREATE TABLE billing_product (
  currency text,
  description text,
  id text NOT NULL,
  is_archived boolean NOT NULL,
  name text NOT NULL,
  plan text,
  price_amount_cents integer,
  price_id text,
  provider text NOT NULL,
  recurring_interval text,
  CONSTRAINT billing_product_pkey PRIMARY KEY (provider, id)
);

CREATE TABLE billing_sandbox_event (
  body text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  delivered_at timestamp with time zone,
  id text NOT NULL,
  CONSTRAINT billing_sandbox_event_pkey PRIMARY KEY (id)
);

CREATE TABLE billing_sandbox_session (
  expires_at timestamp with time zone NOT NULL,
  hash bytea NOT NULL,
  kind text NOT NULL,
  product_id text,
  project_id uuid NOT NULL,
  used_at timestamp with time zone,
  CONSTRAINT billing_sandbox_session_kind_check CHECK ((kind = ANY (ARRAY['checkout'::text, 'portal'::text]))),
  CONSTRAINT billing_sandbox_session_pkey PRIMARY KEY (hash)
);

CREATE TABLE billing_sandbox_subscription (
  cancel_at_period_end boolean NOT NULL DEFAULT false,
  id text NOT NULL,
  modified_at timestamp with time zone NOT NULL,
  pays boolean NOT NULL DEFAULT true,
  period_end timestamp with time zone NOT NULL,
  period_start timestamp with time zone NOT NULL,
  product_id text NOT NULL,
  project_id uuid NOT NULL,
  status text NOT NULL,
  CONSTRAINT billing_sandbox_subscription_pkey PRIMARY KEY (id),
  CONSTRAINT billing_sandbox_subscription_status_check CHECK ((status = ANY (ARRAY['active'::text, 'past_due'::text, 'canceled'::text])))
);

CREATE TABLE billing_subscription (
  amount_cents integer,
  cancel_at_period_end boolean NOT NULL,
  currency text,
  customer_id text,
  id text NOT NULL,
  modified_at timestamp with time zone NOT NULL,
  period_end timestamp with time zone,
  period_start timestamp with time zone,
  product_id text NOT NULL,
  project_id uuid NOT NULL,
  provider text NOT NULL,
  state text NOT NULL,
  CONSTRAINT billing_subscription_pkey PRIMARY KEY (provider, id),
  CONSTRAINT billing_subscription_state_check CHECK ((state = ANY (ARRAY['incomplete'::text, 'trialing'::text, 'active'::text, 'past_due'::text, 'unpaid'::text, 'paused'::text, 'canceled'::text])))
);

CREATE TABLE branch (
  answers boolean NOT NULL DEFAULT false,
  app_id uuid,
  backup_volume_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  data_volume_id uuid,
  database_id uuid NOT NULL,
  error text,
  from_moment text,
  from_snapshot_id uuid,
  id uuid NOT NULL,
  is_current boolean NOT NULL DEFAULT false,
  kind text NOT NULL DEFAULT 'user'::text,
  name text NOT NULL,
  parent_id uuid,
  password_revision integer NOT NULL DEFAULT 1,
  previous_timeline_id text,
  project_id uuid NOT NULL,
  ready_at timestamp with time zone,
  restore_moment text,
  restore_snapshot_id uuid,
  restored integer NOT NULL DEFAULT 0,
  restored_at timestamp with time zone,
  restores integer NOT NULL DEFAULT 0,
  revision integer NOT NULL DEFAULT 0,
  timeline_id text NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  want text NOT NULL DEFAULT 'live'::text,
  CONSTRAINT branch_database_id_fkey FOREIGN KEY (database_id) REFERENCES database(id),
  CONSTRAINT branch_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'drill'::text, 'spare'::text]))),
  CONSTRAINT branch_pkey PRIMARY KEY (id),
  CONSTRAINT branch_timeline_id_check CHECK ((timeline_id ~ '^[0-9a-f]{32}$'::text)),
  CONSTRAINT branch_timeline_id_key UNIQUE (timeline_id),
  CONSTRAINT branch_want_check CHECK ((want = ANY (ARRAY['live'::text, 'deleted'::text])))
);

CREATE TABLE branch_backup (
  backups integer NOT NULL DEFAULT 0,
  branch_id uuid NOT NULL,
  drill_branch_id uuid,
  drill_error text,
  drill_passed boolean,
  drill_started_at timestamp with time zone,
  drilled_at timestamp with time zone,
  error text,
  looked_at timestamp with time zone,
  newest_at timestamp with time zone,
  size_bytes bigint NOT NULL DEFAULT 0,
  started_at timestamp with time zone,
  CONSTRAINT branch_backup_branch_id_fkey FOREIGN KEY (branch_id) REFERENCES branch(id) ON DELETE CASCADE,
  CONSTRAINT branch_backup_pkey PRIMARY KEY (branch_id)
);

CREATE TABLE budget (
  changed_at timestamp with time zone NOT NULL DEFAULT now(),
  month timestamp with time zone NOT NULL DEFAULT date_trunc('month'::text, now(), 'UTC'::text),
  monthly_cents integer NOT NULL,
  project_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'fine'::text,
  CONSTRAINT budget_monthly_cents_check CHECK ((monthly_cents >= 0)),
  CONSTRAINT budget_pkey PRIMARY KEY (project_id),
  CONSTRAINT budget_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE,
  CONSTRAINT budget_state_check CHECK ((state = ANY (ARRAY['fine'::text, 'warned'::text, 'grace'::text, 'capped'::text])))
);

CREATE TABLE build (
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deployment_id uuid NOT NULL,
  disk_mib integer NOT NULL,
  ended_at timestamp with time zone,
  error text,
  generation integer NOT NULL DEFAULT 1,
  git_branch text NOT NULL,
  git_commit text NOT NULL,
  git_submodules boolean NOT NULL DEFAULT false,
  git_url text NOT NULL,
  holds boolean NOT NULL DEFAULT false,
  host_id uuid,
  hosts_lost integer NOT NULL DEFAULT 0,
  hypervisor text,
  id uuid NOT NULL,
  image text,
  memory_mib integer NOT NULL,
  project_id uuid NOT NULL,
  scm_installation_id bigint,
  settings jsonb,
  started_at timestamp with time zone,
  state text NOT NULL DEFAULT 'queued'::text,
  vcpus integer NOT NULL,
  CONSTRAINT build_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT build_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT build_pkey PRIMARY KEY (id),
  CONSTRAINT build_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT build_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'fetching'::text, 'building'::text, 'pushing'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'superseded'::text])))
);

CREATE TABLE build_log (
  build_id uuid NOT NULL,
  kept_at timestamp with time zone NOT NULL DEFAULT now(),
  lines jsonb NOT NULL,
  CONSTRAINT build_log_build_id_fkey FOREIGN KEY (build_id) REFERENCES build(id) ON DELETE CASCADE,
  CONSTRAINT build_log_pkey PRIMARY KEY (build_id)
);

CREATE TABLE captcha (
  answer_hash bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  id uuid NOT NULL,
  work_bits smallint NOT NULL DEFAULT 0,
  CONSTRAINT captcha_pkey PRIMARY KEY (id)
);

CREATE TABLE certificate (
  chain text,
  domain_id uuid NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  message text,
  next_try_at timestamp with time zone NOT NULL DEFAULT now(),
  not_after timestamp with time zone,
  not_before timestamp with time zone,
  private_key bytea,
  CONSTRAINT certificate_check CHECK (((chain IS NULL) = (private_key IS NULL))),
  CONSTRAINT certificate_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES domain(id) ON DELETE CASCADE,
  CONSTRAINT certificate_pkey PRIMARY KEY (domain_id)
);

CREATE TABLE counts_reporter (
  id uuid NOT NULL,
  seen_at timestamp with time zone NOT NULL DEFAULT now(),
  seq bigint NOT NULL,
  CONSTRAINT counts_reporter_pkey PRIMARY KEY (id)
);

CREATE TABLE database (
  backend text NOT NULL,
  backup_target bytea,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  disk_mib integer NOT NULL,
  engine text NOT NULL,
  engine_version integer NOT NULL,
  id uuid NOT NULL,
  memory_mib integer NOT NULL,
  name text NOT NULL,
  password bytea NOT NULL,
  password_revision integer NOT NULL DEFAULT 1,
  project_id uuid NOT NULL,
  revision integer NOT NULL DEFAULT 1,
  settings jsonb NOT NULL DEFAULT '{}'::jsonb,
  storage_node bigint,
  tenant_gen integer NOT NULL DEFAULT 1,
  tenant_id text NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  vcpus integer NOT NULL,
  want text NOT NULL DEFAULT 'running'::text,
  CONSTRAINT database_backend_check CHECK ((backend = ANY (ARRAY['volume'::text, 'neon'::text]))),
  CONSTRAINT database_pkey PRIMARY KEY (id),
  CONSTRAINT database_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT database_storage_node_check CHECK (((storage_node IS NULL) = (backend <> 'neon'::text))),
  CONSTRAINT database_tenant_id_check CHECK ((tenant_id ~ '^[0-9a-f]{32}$'::text)),
  CONSTRAINT database_tenant_id_key UNIQUE (tenant_id),
  CONSTRAINT database_want_check CHECK ((want = ANY (ARRAY['running'::text, 'suspended'::text, 'deleted'::text])))
);

CREATE TABLE database_snapshot (
  branch_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  database_id uuid NOT NULL,
  error text,
  id uuid NOT NULL,
  kind text NOT NULL DEFAULT 'user'::text,
  lsn text,
  name text NOT NULL,
  project_id uuid NOT NULL,
  size_bytes bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'creating'::text,
  volume_snapshot_id uuid,
  want text NOT NULL DEFAULT 'present'::text,
  CONSTRAINT database_snapshot_branch_id_fkey FOREIGN KEY (branch_id) REFERENCES branch(id),
  CONSTRAINT database_snapshot_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'restore'::text]))),
  CONSTRAINT database_snapshot_pkey PRIMARY KEY (id),
  CONSTRAINT database_snapshot_state_check CHECK ((state = ANY (ARRAY['creating'::text, 'ready'::text, 'failed'::text]))),
  CONSTRAINT database_snapshot_want_check CHECK ((want = ANY (ARRAY['present'::text, 'absent'::text])))
);

CREATE TABLE deployment (
  activated_at timestamp with time zone,
  announced text,
  app_id uuid NOT NULL,
  arguments text[] NOT NULL DEFAULT '{}'::text[],
  author_id uuid,
  build_id text NOT NULL DEFAULT ''::text,
  canary jsonb,
  canary_ended_at timestamp with time zone,
  canary_failed bigint NOT NULL DEFAULT 0,
  canary_requests bigint NOT NULL DEFAULT 0,
  canary_started_at timestamp with time zone,
  canary_state text,
  command text[] NOT NULL DEFAULT '{}'::text[],
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  disk_mib integer NOT NULL,
  error_message text,
  finished integer NOT NULL DEFAULT 0,
  git_author text NOT NULL DEFAULT ''::text,
  git_branch text NOT NULL DEFAULT ''::text,
  git_commit_hash text NOT NULL DEFAULT ''::text,
  git_commit_message text NOT NULL DEFAULT ''::text,
  health_check_path text,
  hypervisor integer NOT NULL,
  id uuid NOT NULL,
  image text NOT NULL DEFAULT ''::text,
  job_id text NOT NULL,
  memory_mib integer NOT NULL,
  outcome text,
  port integer NOT NULL,
  project_id uuid NOT NULL,
  reactivated boolean NOT NULL DEFAULT false,
  release_command text[],
  replaced integer NOT NULL DEFAULT 0,
  replaced_at timestamp with time zone,
  restart jsonb,
  rollout bigint NOT NULL DEFAULT nextval('rollout_order'::regclass),
  scheduled_at timestamp with time zone,
  started_at timestamp with time zone,
  stopped_at timestamp with time zone,
  traceparent text,
  trigger_source text NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  vcpus integer NOT NULL,
  want text NOT NULL DEFAULT 'running'::text,
  CONSTRAINT deployment_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT deployment_canary_state_check CHECK ((canary_state = ANY (ARRAY['running'::text, 'passed'::text, 'failed'::text, 'cancelled'::text]))),
  CONSTRAINT deployment_outcome_check CHECK ((outcome = ANY (ARRAY['stopped'::text, 'superseded'::text, 'failed'::text, 'cancelled'::text]))),
  CONSTRAINT deployment_pkey PRIMARY KEY (id),
  CONSTRAINT deployment_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT deployment_want_check CHECK ((want = ANY (ARRAY['running'::text, 'paused'::text, 'stopped'::text, 'deleted'::text])))
);

CREATE TABLE deployment_env (
  deployment_id uuid NOT NULL,
  name text NOT NULL,
  value bytea NOT NULL,
  CONSTRAINT deployment_env_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT deployment_env_pkey PRIMARY KEY (deployment_id, name)
);

CREATE TABLE deployment_file (
  content bytea,
  deployment_id uuid NOT NULL,
  mode integer NOT NULL,
  path text NOT NULL,
  variable text,
  CONSTRAINT deployment_file_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT deployment_file_pkey PRIMARY KEY (deployment_id, path)
);

CREATE TABLE deployment_requests (
  deployment_id uuid NOT NULL,
  failed bigint NOT NULL DEFAULT 0,
  requests bigint NOT NULL DEFAULT 0,
  CONSTRAINT deployment_requests_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT deployment_requests_pkey PRIMARY KEY (deployment_id)
);

CREATE TABLE domain (
  app_id uuid NOT NULL,
  checked_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  message text,
  misses integer NOT NULL DEFAULT 0,
  name text NOT NULL,
  next_check_at timestamp with time zone NOT NULL DEFAULT now(),
  project_id uuid NOT NULL,
  state text NOT NULL DEFAULT 'pending'::text,
  token text NOT NULL,
  verified_at timestamp with time zone,
  CONSTRAINT domain_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT domain_pkey PRIMARY KEY (id),
  CONSTRAINT domain_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT domain_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'verified'::text, 'lost'::text])))
);

CREATE TABLE email_link (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  email text NOT NULL,
  epoch integer NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  hash bytea NOT NULL,
  purpose text NOT NULL,
  CONSTRAINT email_link_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT email_link_email_check CHECK ((email = lower(email))),
  CONSTRAINT email_link_pkey PRIMARY KEY (account_id, purpose),
  CONSTRAINT email_link_purpose_check CHECK ((purpose = ANY (ARRAY['verify'::text, 'reset'::text, 'change'::text])))
);

CREATE TABLE env_group (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  name text NOT NULL,
  project_id uuid NOT NULL,
  CONSTRAINT env_group_name UNIQUE (project_id, name),
  CONSTRAINT env_group_pkey PRIMARY KEY (id),
  CONSTRAINT env_group_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE env_group_value (
  group_id uuid NOT NULL,
  name text NOT NULL,
  plain_at timestamp with time zone,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  value bytea NOT NULL,
  CONSTRAINT env_group_value_group_id_fkey FOREIGN KEY (group_id) REFERENCES env_group(id) ON DELETE CASCADE,
  CONSTRAINT env_group_value_pkey PRIMARY KEY (group_id, name)
);

CREATE TABLE env_version (
  app_id uuid,
  author_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  group_id uuid,
  id uuid NOT NULL,
  removed_names text[] NOT NULL,
  restored integer,
  set_names text[] NOT NULL,
  version integer NOT NULL,
  CONSTRAINT env_version_app UNIQUE (app_id, version),
  CONSTRAINT env_version_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT env_version_group UNIQUE (group_id, version),
  CONSTRAINT env_version_group_id_fkey FOREIGN KEY (group_id) REFERENCES env_group(id) ON DELETE CASCADE,
  CONSTRAINT env_version_owner CHECK (((app_id IS NULL) <> (group_id IS NULL))),
  CONSTRAINT env_version_pkey PRIMARY KEY (id)
);

CREATE TABLE env_version_value (
  name text NOT NULL,
  plain boolean NOT NULL,
  value bytea NOT NULL,
  version_id uuid NOT NULL,
  CONSTRAINT env_version_value_pkey PRIMARY KEY (version_id, name),
  CONSTRAINT env_version_value_version_id_fkey FOREIGN KEY (version_id) REFERENCES env_version(id) ON DELETE CASCADE
);

CREATE TABLE event (
  app_id uuid,
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  data jsonb NOT NULL,
  deployment_id uuid,
  kind text NOT NULL,
  "position" bigint,
  project_id uuid NOT NULL,
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT event_pkey PRIMARY KEY (seq)
);

CREATE TABLE git_credential (
  app_id uuid NOT NULL,
  host text NOT NULL,
  kind text NOT NULL,
  known_hosts text,
  public_key text,
  secret bytea NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  username text NOT NULL,
  CONSTRAINT git_credential_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT git_credential_kind_check CHECK ((kind = ANY (ARRAY['token'::text, 'ssh_key'::text]))),
  CONSTRAINT git_credential_pkey PRIMARY KEY (app_id)
);

CREATE TABLE history_mark (
  rolled_until timestamp with time zone NOT NULL,
  step_seconds integer NOT NULL,
  CONSTRAINT history_mark_pkey PRIMARY KEY (step_seconds)
);

CREATE TABLE host (
  agent_labels jsonb NOT NULL DEFAULT '{}'::jsonb,
  arch text NOT NULL,
  cordoned boolean NOT NULL DEFAULT false,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  database_images jsonb,
  disk_mib bigint NOT NULL,
  draining boolean NOT NULL DEFAULT false,
  hypervisors jsonb NOT NULL,
  id uuid NOT NULL,
  incarnation text NOT NULL,
  labels jsonb NOT NULL DEFAULT '{}'::jsonb,
  last_seen_at timestamp with time zone NOT NULL DEFAULT now(),
  lost_at timestamp with time zone,
  memory_mib integer NOT NULL,
  name text NOT NULL,
  network text NOT NULL,
  pools jsonb NOT NULL DEFAULT '[]'::jsonb,
  removed_at timestamp with time zone,
  suspected_at timestamp with time zone,
  used_disk_mib bigint NOT NULL DEFAULT 0,
  used_memory_mib integer NOT NULL DEFAULT 0,
  used_vcpus integer NOT NULL DEFAULT 0,
  vcpus integer NOT NULL,
  version text NOT NULL,
  CONSTRAINT host_check CHECK (((used_vcpus >= 0) AND (used_memory_mib >= 0) AND (used_disk_mib >= 0))),
  CONSTRAINT host_pkey PRIMARY KEY (id)
);

CREATE TABLE idempotency_key (
  account_id uuid NOT NULL,
  answer bytea,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  fingerprint bytea NOT NULL,
  key text NOT NULL,
  status integer,
  CONSTRAINT idempotency_key_pkey PRIMARY KEY (account_id, key)
);

CREATE TABLE installation_secret (
  fingerprint bytea,
  singleton boolean NOT NULL DEFAULT true,
  CONSTRAINT installation_secret_pkey PRIMARY KEY (singleton),
  CONSTRAINT installation_secret_singleton_check CHECK (singleton)
);

CREATE TABLE job (
  app_id uuid NOT NULL,
  command text[] NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  name text NOT NULL,
  next_at timestamp with time zone,
  note text,
  overlap text NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  project_id uuid NOT NULL,
  retries integer NOT NULL,
  schedule text NOT NULL,
  time_zone text NOT NULL,
  timeout_seconds integer NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT job_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT job_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'allow'::text, 'replace'::text]))),
  CONSTRAINT job_pkey PRIMARY KEY (id),
  CONSTRAINT job_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id)
);

CREATE TABLE login_backoff (
  blocked_until timestamp with time zone NOT NULL,
  failures integer NOT NULL,
  key bytea NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT login_backoff_pkey PRIMARY KEY (key)
);

CREATE TABLE machine (
  attempt integer NOT NULL DEFAULT 0,
  deadline timestamp with time zone,
  entered_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  kind text NOT NULL,
  last_error text,
  lease uuid,
  lease_until timestamp with time zone,
  phase text NOT NULL,
  pokes bigint NOT NULL DEFAULT 0,
  runner uuid,
  wake_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT machine_lease_whole CHECK ((num_nulls(lease, lease_until, runner) = ANY (ARRAY[0, 3]))),
  CONSTRAINT machine_pkey PRIMARY KEY (kind, id)
);

CREATE TABLE machine_poke (
  id uuid NOT NULL,
  kind text NOT NULL
);

CREATE TABLE mesh_host (
  assigned text,
  changed_at timestamp with time zone NOT NULL DEFAULT now(),
  endpoint text NOT NULL,
  gateway text,
  guests text,
  host_id uuid NOT NULL,
  public_key text NOT NULL,
  CONSTRAINT mesh_host_assigned_key UNIQUE (assigned),
  CONSTRAINT mesh_host_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT mesh_host_pkey PRIMARY KEY (host_id)
);

CREATE TABLE migration (
  app_id uuid NOT NULL,
  deployment_id uuid NOT NULL,
  disk_mib integer NOT NULL,
  downtime_ms double precision,
  ended_at timestamp with time zone,
  error text,
  held_at timestamp with time zone,
  id uuid NOT NULL,
  luggage_at timestamp with time zone,
  memory_mib integer NOT NULL,
  method text NOT NULL,
  percent double precision NOT NULL DEFAULT 0,
  project_id uuid NOT NULL,
  released_at timestamp with time zone,
  source_host_id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'preparing'::text,
  stopped_at timestamp with time zone,
  target_host_id uuid NOT NULL,
  total_bytes bigint NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  uri text,
  vcpus integer NOT NULL,
  vm_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'move'::text,
  with_volumes boolean NOT NULL DEFAULT false,
  CONSTRAINT migration_method_check CHECK ((method = ANY (ARRAY['live'::text, 'stop-and-copy'::text]))),
  CONSTRAINT migration_pkey PRIMARY KEY (id),
  CONSTRAINT migration_source_host_id_fkey FOREIGN KEY (source_host_id) REFERENCES host(id),
  CONSTRAINT migration_state_check CHECK ((state = ANY (ARRAY['preparing'::text, 'copying'::text, 'switching'::text, 'clearing'::text, 'cancelling'::text, 'completed'::text, 'cancelled'::text, 'failed'::text]))),
  CONSTRAINT migration_target_host_id_fkey FOREIGN KEY (target_host_id) REFERENCES host(id),
  CONSTRAINT migration_want_check CHECK ((want = ANY (ARRAY['move'::text, 'cancel'::text])))
);

CREATE TABLE notification (
  account_id uuid NOT NULL,
  body text NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  email_attempt integer NOT NULL DEFAULT 0,
  email_due_at timestamp with time zone,
  email_outcome text,
  entity_name text NOT NULL,
  id uuid NOT NULL,
  kind text NOT NULL,
  metadata jsonb,
  project_id uuid NOT NULL,
  read_at timestamp with time zone,
  resource_id text NOT NULL,
  route text NOT NULL,
  title text NOT NULL,
  CONSTRAINT notification_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT notification_email_outcome_check CHECK ((email_outcome = ANY (ARRAY['sent'::text, 'failed'::text]))),
  CONSTRAINT notification_pkey PRIMARY KEY (id),
  CONSTRAINT notification_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE outgoing_mail (
  attempt integer NOT NULL DEFAULT 0,
  body bytea NOT NULL,
  due_at timestamp with time zone NOT NULL,
  id uuid NOT NULL,
  recipient text NOT NULL,
  subject text NOT NULL,
  CONSTRAINT outgoing_mail_pkey PRIMARY KEY (id)
);

CREATE TABLE own_registry (
  id uuid NOT NULL,
  one boolean NOT NULL DEFAULT true,
  url text NOT NULL,
  CONSTRAINT own_registry_one_check CHECK (one),
  CONSTRAINT own_registry_pkey PRIMARY KEY (one)
);

CREATE TABLE pat (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone,
  hash bytea NOT NULL,
  id uuid NOT NULL,
  last_four text NOT NULL,
  last_used_at timestamp with time zone,
  name text NOT NULL,
  project_id uuid,
  scopes text[] NOT NULL,
  CONSTRAINT pat_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT pat_pkey PRIMARY KEY (id),
  CONSTRAINT pat_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE private_network (
  ipv6_prefix text NOT NULL,
  is_only boolean NOT NULL DEFAULT true,
  CONSTRAINT private_network_is_only_check CHECK (is_only),
  CONSTRAINT private_network_pkey PRIMARY KEY (is_only)
);

CREATE TABLE project (
  capped_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  ipv6_prefix text NOT NULL,
  name text NOT NULL,
  plan text NOT NULL,
  slug text NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  want text NOT NULL DEFAULT 'live'::text,
  CONSTRAINT project_pkey PRIMARY KEY (id),
  CONSTRAINT project_want_check CHECK ((want = ANY (ARRAY['live'::text, 'deleted'::text])))
);

CREATE TABLE project_invitation (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  email text NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  id uuid NOT NULL,
  invited_by uuid NOT NULL,
  project_id uuid NOT NULL,
  role text NOT NULL,
  secret_hash bytea,
  CONSTRAINT project_invitation_email_check CHECK ((email = lower(email))),
  CONSTRAINT project_invitation_pkey PRIMARY KEY (id),
  CONSTRAINT project_invitation_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE,
  CONSTRAINT project_invitation_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text, 'viewer'::text])))
);

CREATE TABLE project_member (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  project_id uuid NOT NULL,
  role text NOT NULL,
  CONSTRAINT project_member_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT project_member_pkey PRIMARY KEY (project_id, account_id),
  CONSTRAINT project_member_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE,
  CONSTRAINT project_member_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'viewer'::text])))
);

CREATE TABLE recovery_code (
  account_id uuid NOT NULL,
  hash bytea NOT NULL,
  CONSTRAINT recovery_code_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT recovery_code_pkey PRIMARY KEY (account_id, hash)
);

CREATE TABLE refresh_token (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  expires_at timestamp with time zone NOT NULL,
  hash bytea NOT NULL,
  session_id uuid NOT NULL,
  used_at timestamp with time zone,
  CONSTRAINT refresh_token_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT refresh_token_pkey PRIMARY KEY (hash),
  CONSTRAINT refresh_token_session_id_fkey FOREIGN KEY (session_id) REFERENCES session(id) ON DELETE CASCADE
);

CREATE TABLE registry_credential (
  host text NOT NULL,
  project_id uuid NOT NULL,
  secret bytea NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  username text NOT NULL,
  CONSTRAINT registry_credential_pkey PRIMARY KEY (project_id, host),
  CONSTRAINT registry_credential_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE retired_slug (
  slug_hash bytea NOT NULL,
  CONSTRAINT retired_slug_pkey PRIMARY KEY (slug_hash)
);

CREATE TABLE route (
  app_id uuid NOT NULL,
  backends jsonb NOT NULL,
  canary jsonb,
  changed_at timestamp with time zone NOT NULL DEFAULT now(),
  drain_seconds integer NOT NULL,
  hostname text NOT NULL,
  leaving jsonb NOT NULL DEFAULT '[]'::jsonb,
  project_id uuid NOT NULL,
  state text NOT NULL,
  version bigint NOT NULL DEFAULT nextval('route_version'::regclass),
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT route_pkey PRIMARY KEY (hostname),
  CONSTRAINT route_state_check CHECK ((state = ANY (ARRAY['live'::text, 'sleeping'::text, 'down'::text, 'gone'::text])))
);

CREATE TABLE run (
  account_id uuid,
  app_id uuid NOT NULL,
  attempt integer NOT NULL DEFAULT 1,
  command text[],
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deployment_id uuid NOT NULL,
  due_at timestamp with time zone,
  ended_at timestamp with time zone,
  error text,
  exit_code integer,
  id uuid NOT NULL,
  job_id uuid,
  log text,
  outcome text,
  project_id uuid NOT NULL,
  purpose text NOT NULL,
  started_at timestamp with time zone,
  timeout_seconds integer NOT NULL,
  want text NOT NULL DEFAULT 'finished'::text,
  CONSTRAINT run_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT run_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT run_job_id_fkey FOREIGN KEY (job_id) REFERENCES job(id) ON DELETE SET NULL,
  CONSTRAINT run_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text, 'timed_out'::text, 'lost'::text]))),
  CONSTRAINT run_pkey PRIMARY KEY (id),
  CONSTRAINT run_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT run_purpose_check CHECK ((purpose = ANY (ARRAY['command'::text, 'release'::text, 'job'::text]))),
  CONSTRAINT run_want_check CHECK ((want = ANY (ARRAY['finished'::text, 'cancelled'::text])))
);

CREATE TABLE runner (
  id uuid NOT NULL,
  kinds text[] NOT NULL,
  since timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT runner_pkey PRIMARY KEY (id)
);

CREATE TABLE scm_binding (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  installation_id bigint NOT NULL,
  project_id uuid NOT NULL,
  CONSTRAINT scm_binding_pkey PRIMARY KEY (installation_id, project_id),
  CONSTRAINT scm_binding_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE scm_delivery (
  event text NOT NULL,
  id text NOT NULL,
  received_at timestamp with time zone NOT NULL DEFAULT now(),
  source text NOT NULL,
  CONSTRAINT scm_delivery_pkey PRIMARY KEY (source, id)
);

CREATE TABLE scm_effect (
  app_id uuid NOT NULL,
  branch text NOT NULL,
  commit_hash text NOT NULL,
  delivery_id text NOT NULL,
  event text NOT NULL,
  reason text NOT NULL,
  received_at timestamp with time zone NOT NULL DEFAULT now(),
  source text NOT NULL,
  status text NOT NULL,
  CONSTRAINT scm_effect_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT scm_effect_pkey PRIMARY KEY (app_id, source, delivery_id),
  CONSTRAINT scm_effect_status_check CHECK ((status = ANY (ARRAY['applied'::text, 'ignored'::text, 'refused'::text])))
);

CREATE TABLE scm_installation (
  account_type text NOT NULL,
  avatar_url text,
  changed_at timestamp with time zone NOT NULL,
  id bigint NOT NULL,
  login text NOT NULL,
  state text NOT NULL,
  CONSTRAINT scm_installation_pkey PRIMARY KEY (id),
  CONSTRAINT scm_installation_state_check CHECK ((state = ANY (ARRAY['active'::text, 'suspended'::text, 'deleted'::text])))
);

CREATE TABLE scm_preview (
  app_id uuid NOT NULL,
  changed_at timestamp with time zone NOT NULL,
  number integer NOT NULL,
  preview_app_id uuid,
  state text NOT NULL,
  CONSTRAINT scm_preview_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT scm_preview_pkey PRIMARY KEY (app_id, number),
  CONSTRAINT scm_preview_state_check CHECK ((state = ANY (ARRAY['open'::text, 'closed'::text])))
);

CREATE TABLE scm_push (
  app_id uuid NOT NULL,
  branch text NOT NULL,
  commit_hash text NOT NULL,
  pushed_at timestamp with time zone NOT NULL,
  CONSTRAINT scm_push_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT scm_push_pkey PRIMARY KEY (app_id, branch)
);

CREATE TABLE scm_report (
  deployment_id uuid NOT NULL,
  due_at timestamp with time zone NOT NULL DEFAULT now(),
  told text,
  tries integer NOT NULL DEFAULT 0,
  CONSTRAINT scm_report_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT scm_report_pkey PRIMARY KEY (deployment_id)
);

CREATE TABLE scm_repository (
  changed_at timestamp with time zone NOT NULL,
  full_name text NOT NULL,
  id bigint NOT NULL,
  is_deleted boolean NOT NULL DEFAULT false,
  CONSTRAINT scm_repository_pkey PRIMARY KEY (id)
);

CREATE TABLE scm_state (
  id uuid NOT NULL,
  used_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT scm_state_pkey PRIMARY KEY (id)
);

CREATE TABLE security_rule (
  action text NOT NULL,
  app_id uuid NOT NULL,
  cidr text,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  direction text NOT NULL,
  id uuid NOT NULL,
  port_end integer NOT NULL,
  port_start integer NOT NULL,
  priority integer NOT NULL,
  project_id uuid NOT NULL,
  protocol text NOT NULL,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  CONSTRAINT security_rule_action_check CHECK ((action = ANY (ARRAY['allow'::text, 'deny'::text]))),
  CONSTRAINT security_rule_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT security_rule_check CHECK (((port_end >= port_start) AND (port_end <= 65535))),
  CONSTRAINT security_rule_direction_check CHECK ((direction = ANY (ARRAY['inbound'::text, 'outbound'::text]))),
  CONSTRAINT security_rule_pkey PRIMARY KEY (id),
  CONSTRAINT security_rule_port_start_check CHECK ((port_start >= 0)),
  CONSTRAINT security_rule_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT security_rule_protocol_check CHECK ((protocol = ANY (ARRAY['tcp'::text, 'udp'::text, 'icmp'::text, 'any'::text])))
);

CREATE TABLE session (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  id uuid NOT NULL,
  ip_address text,
  revoked_at timestamp with time zone,
  user_agent text,
  CONSTRAINT session_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT session_pkey PRIMARY KEY (id)
);

CREATE TABLE ssh_key (
  account_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  fingerprint text NOT NULL,
  id uuid NOT NULL,
  last_used_at timestamp with time zone,
  name text NOT NULL,
  public_key text NOT NULL,
  CONSTRAINT ssh_key_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT ssh_key_pkey PRIMARY KEY (id)
);

CREATE TABLE stray (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  disk_mib integer NOT NULL,
  host_id uuid NOT NULL,
  memory_mib integer NOT NULL,
  vcpus integer NOT NULL,
  vm_id uuid NOT NULL,
  CONSTRAINT stray_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT stray_pkey PRIMARY KEY (host_id, vm_id)
);

CREATE TABLE sweep_run (
  duration_ms integer,
  error text,
  failures_in_a_row integer NOT NULL DEFAULT 0,
  name text NOT NULL,
  pokes bigint NOT NULL DEFAULT 0,
  pokes_seen bigint NOT NULL DEFAULT 0,
  result jsonb,
  runs bigint NOT NULL DEFAULT 0,
  started_at timestamp with time zone,
  CONSTRAINT sweep_run_pkey PRIMARY KEY (name)
);

CREATE TABLE tcp_service (
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  name text NOT NULL,
  port integer NOT NULL,
  public_port integer NOT NULL,
  CONSTRAINT tcp_service_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT tcp_service_pkey PRIMARY KEY (app_id, name),
  CONSTRAINT tcp_service_port_check CHECK (((port >= 1) AND (port <= 65535))),
  CONSTRAINT tcp_service_public_port_check CHECK (((public_port >= 1) AND (public_port <= 65535))),
  CONSTRAINT tcp_service_public_port_key UNIQUE (public_port)
);

CREATE TABLE tls_service (
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  name text NOT NULL,
  port integer NOT NULL,
  CONSTRAINT tls_service_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT tls_service_pkey PRIMARY KEY (app_id),
  CONSTRAINT tls_service_port_check CHECK (((port >= 1) AND (port <= 65535)))
);

CREATE TABLE tunnel_password (
  account_id uuid NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  hash bytea NOT NULL,
  project_id uuid NOT NULL,
  target uuid NOT NULL,
  via text NOT NULL,
  via_id uuid NOT NULL,
  CONSTRAINT tunnel_password_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id) ON DELETE CASCADE,
  CONSTRAINT tunnel_password_pkey PRIMARY KEY (hash),
  CONSTRAINT tunnel_password_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE,
  CONSTRAINT tunnel_password_via_check CHECK ((via = ANY (ARRAY['pat'::text, 'session'::text])))
);

CREATE TABLE usage_egress (
  counted_bytes bigint NOT NULL,
  seen_at timestamp with time zone NOT NULL DEFAULT now(),
  vm_id uuid NOT NULL,
  CONSTRAINT usage_egress_pkey PRIMARY KEY (vm_id)
);

CREATE TABLE usage_mark (
  counted_until timestamp with time zone NOT NULL DEFAULT now(),
  one boolean NOT NULL DEFAULT true,
  CONSTRAINT usage_mark_one_check CHECK (one),
  CONSTRAINT usage_mark_pkey PRIMARY KEY (one)
);

CREATE TABLE usage_month (
  egress_bytes bigint NOT NULL DEFAULT 0,
  month timestamp with time zone NOT NULL,
  project_id uuid NOT NULL,
  storage_mib_seconds double precision NOT NULL DEFAULT 0,
  CONSTRAINT usage_month_pkey PRIMARY KEY (project_id, month),
  CONSTRAINT usage_month_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE usage_span (
  ended_at timestamp with time zone,
  memory_mib integer NOT NULL,
  project_id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  vcpus integer NOT NULL,
  vm_id uuid NOT NULL,
  CONSTRAINT usage_span_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE
);

CREATE TABLE vm (
  app_id uuid NOT NULL,
  balloon_target_mib integer,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deployment_id uuid NOT NULL,
  disk_mib integer NOT NULL,
  endpoint_host text,
  endpoint_port integer,
  from_renew boolean NOT NULL DEFAULT false,
  from_required boolean NOT NULL DEFAULT false,
  from_snapshot_id uuid,
  generation integer NOT NULL DEFAULT 1,
  healthy boolean NOT NULL DEFAULT false,
  host_id uuid,
  hypervisor text,
  id uuid NOT NULL,
  ipv6_address text NOT NULL,
  memory_mib integer NOT NULL,
  pinned_host_id uuid,
  placed_at timestamp with time zone,
  placement_note text,
  project_id uuid NOT NULL,
  restart_count integer NOT NULL DEFAULT 0,
  restarts integer NOT NULL DEFAULT 0,
  run_id uuid,
  seen_at_us bigint NOT NULL DEFAULT 0,
  seen_count bigint NOT NULL DEFAULT 0,
  seen_error text,
  seen_exit_code integer,
  seen_firewall jsonb,
  seen_generation integer NOT NULL DEFAULT 0,
  seen_state text,
  seen_steps jsonb NOT NULL DEFAULT '[]'::jsonb,
  vcpus integer NOT NULL,
  want text NOT NULL DEFAULT 'running'::text,
  CONSTRAINT vm_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id),
  CONSTRAINT vm_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT vm_pkey PRIMARY KEY (id),
  CONSTRAINT vm_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT vm_run_id_fkey FOREIGN KEY (run_id) REFERENCES run(id),
  CONSTRAINT vm_want_check CHECK ((want = ANY (ARRAY['running'::text, 'paused'::text, 'stopped'::text, 'absent'::text])))
);

CREATE TABLE vm_disk (
  attachment_id uuid NOT NULL,
  generation integer NOT NULL,
  mount_point text NOT NULL,
  read_only boolean NOT NULL,
  seen_error text,
  seen_state text,
  vm_generation integer NOT NULL,
  vm_id uuid NOT NULL,
  volume_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'present'::text,
  CONSTRAINT vm_disk_attachment_id_fkey FOREIGN KEY (attachment_id) REFERENCES volume_attachment(id),
  CONSTRAINT vm_disk_pkey PRIMARY KEY (vm_id, volume_id),
  CONSTRAINT vm_disk_vm_id_fkey FOREIGN KEY (vm_id) REFERENCES vm(id) ON DELETE CASCADE,
  CONSTRAINT vm_disk_volume_id_fkey FOREIGN KEY (volume_id) REFERENCES volume(id),
  CONSTRAINT vm_disk_want_check CHECK ((want = ANY (ARRAY['present'::text, 'absent'::text])))
);

CREATE TABLE vm_log (
  app_gone boolean NOT NULL DEFAULT false,
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL,
  deployment_id uuid NOT NULL,
  ended_at timestamp with time zone NOT NULL DEFAULT now(),
  host_id uuid NOT NULL,
  job_id text NOT NULL,
  vm_id uuid NOT NULL,
  CONSTRAINT vm_log_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id) ON DELETE CASCADE,
  CONSTRAINT vm_log_pkey PRIMARY KEY (host_id, vm_id)
);

CREATE TABLE vm_session (
  account_id uuid NOT NULL,
  attachment uuid,
  code integer,
  deployment_id uuid NOT NULL,
  ended_at timestamp with time zone,
  id uuid NOT NULL,
  idle_seconds integer,
  opened_at timestamp with time zone NOT NULL DEFAULT now(),
  outcome text,
  program text NOT NULL,
  project_id uuid NOT NULL,
  removed boolean NOT NULL DEFAULT false,
  request_hash bytea,
  seen_at timestamp with time zone NOT NULL DEFAULT now(),
  tty boolean NOT NULL,
  vm_id uuid NOT NULL,
  CONSTRAINT vm_session_check CHECK (((ended_at IS NULL) = (outcome IS NULL))),
  CONSTRAINT vm_session_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT vm_session_outcome_check CHECK ((outcome = ANY (ARRAY['exited'::text, 'signaled'::text, 'lost'::text]))),
  CONSTRAINT vm_session_pkey PRIMARY KEY (id),
  CONSTRAINT vm_session_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE,
  CONSTRAINT vm_session_request_hash_key UNIQUE (request_hash)
);

CREATE TABLE vm_snapshot (
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deployment_id uuid NOT NULL,
  disk_mib integer NOT NULL,
  disks jsonb NOT NULL DEFAULT '[]'::jsonb,
  error text,
  generation integer NOT NULL DEFAULT 1,
  host_id uuid NOT NULL,
  hypervisor text,
  id uuid NOT NULL,
  kind text NOT NULL,
  made_by text,
  memory_mib integer NOT NULL,
  moving_to uuid,
  name text NOT NULL,
  pause_ms double precision,
  project_id uuid NOT NULL,
  sha256 text,
  size_bytes bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'creating'::text,
  vcpus integer NOT NULL,
  vm_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'present'::text,
  CONSTRAINT vm_snapshot_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT vm_snapshot_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'sleep'::text]))),
  CONSTRAINT vm_snapshot_moving_to_fkey FOREIGN KEY (moving_to) REFERENCES host(id),
  CONSTRAINT vm_snapshot_pkey PRIMARY KEY (id),
  CONSTRAINT vm_snapshot_state_check CHECK ((state = ANY (ARRAY['creating'::text, 'ready'::text, 'failed'::text]))),
  CONSTRAINT vm_snapshot_want_check CHECK ((want = ANY (ARRAY['present'::text, 'absent'::text])))
);

CREATE TABLE vm_snapshot_move (
  ended_at timestamp with time zone,
  error text,
  group_id uuid NOT NULL,
  id uuid NOT NULL,
  migration_id uuid,
  percent double precision NOT NULL DEFAULT 0,
  progressed_at timestamp with time zone NOT NULL DEFAULT now(),
  snapshot_id uuid NOT NULL,
  source_host_id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'preparing'::text,
  target_host_id uuid NOT NULL,
  total_bytes bigint NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  uri text,
  want text NOT NULL DEFAULT 'move'::text,
  CONSTRAINT vm_snapshot_move_migration_id_fkey FOREIGN KEY (migration_id) REFERENCES migration(id) ON DELETE SET NULL,
  CONSTRAINT vm_snapshot_move_pkey PRIMARY KEY (id),
  CONSTRAINT vm_snapshot_move_snapshot_id_fkey FOREIGN KEY (snapshot_id) REFERENCES vm_snapshot(id) ON DELETE CASCADE,
  CONSTRAINT vm_snapshot_move_source_host_id_fkey FOREIGN KEY (source_host_id) REFERENCES host(id),
  CONSTRAINT vm_snapshot_move_state_check CHECK ((state = ANY (ARRAY['preparing'::text, 'copying'::text, 'complete'::text, 'clearing'::text, 'cancelling'::text, 'dropping'::text, 'completed'::text, 'cancelled'::text, 'failed'::text]))),
  CONSTRAINT vm_snapshot_move_target_host_id_fkey FOREIGN KEY (target_host_id) REFERENCES host(id),
  CONSTRAINT vm_snapshot_move_want_check CHECK ((want = ANY (ARRAY['move'::text, 'cancel'::text])))
);

CREATE TABLE volume (
  arrived_by uuid,
  attach_generation integer NOT NULL DEFAULT 0,
  bound boolean NOT NULL DEFAULT true,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  error text,
  from_snapshot_id uuid,
  from_volume_id uuid,
  fullness smallint NOT NULL DEFAULT 0,
  generation integer NOT NULL DEFAULT 1,
  grown_mib integer NOT NULL DEFAULT 0,
  host_id uuid,
  id uuid NOT NULL,
  image text NOT NULL DEFAULT ''::text,
  key bytea,
  measured_at timestamp with time zone,
  moving_to uuid,
  name text NOT NULL,
  owner text NOT NULL DEFAULT 'user'::text,
  owner_id uuid,
  pool_name text NOT NULL DEFAULT ''::text,
  project_id uuid NOT NULL,
  restore_snapshot_id uuid,
  restores integer NOT NULL DEFAULT 0,
  schedule_keep integer,
  schedule_minutes integer,
  scheduled_at timestamp with time zone,
  size_mib integer NOT NULL,
  snapshot_bytes bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'creating'::text,
  updated_at timestamp with time zone NOT NULL DEFAULT now(),
  used_bytes bigint NOT NULL DEFAULT 0,
  want text NOT NULL DEFAULT 'present'::text,
  CONSTRAINT volume_host_id_fkey FOREIGN KEY (host_id) REFERENCES host(id),
  CONSTRAINT volume_moving_to_fkey FOREIGN KEY (moving_to) REFERENCES host(id),
  CONSTRAINT volume_owner_check CHECK ((owner = ANY (ARRAY['user'::text, 'database'::text]))),
  CONSTRAINT volume_pkey PRIMARY KEY (id),
  CONSTRAINT volume_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id),
  CONSTRAINT volume_schedule_keep_check CHECK ((schedule_keep > 0)),
  CONSTRAINT volume_schedule_minutes_check CHECK ((schedule_minutes > 0)),
  CONSTRAINT volume_schedule_whole CHECK (((schedule_minutes IS NULL) = (schedule_keep IS NULL))),
  CONSTRAINT volume_size_mib_check CHECK ((size_mib > 0)),
  CONSTRAINT volume_state_check CHECK ((state = ANY (ARRAY['creating'::text, 'ready'::text, 'restoring'::text, 'failed'::text]))),
  CONSTRAINT volume_want_check CHECK ((want = ANY (ARRAY['present'::text, 'absent'::text])))
);

CREATE TABLE volume_attachment (
  access_mode integer NOT NULL,
  app_id uuid NOT NULL,
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  deployment_id uuid,
  id uuid NOT NULL,
  mount_point text NOT NULL,
  project_id uuid NOT NULL,
  volume_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'attached'::text,
  CONSTRAINT volume_attachment_access_mode_check CHECK ((access_mode = ANY (ARRAY[0, 1]))),
  CONSTRAINT volume_attachment_app_id_fkey FOREIGN KEY (app_id) REFERENCES app(id) ON DELETE CASCADE,
  CONSTRAINT volume_attachment_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployment(id) ON DELETE CASCADE,
  CONSTRAINT volume_attachment_pkey PRIMARY KEY (id),
  CONSTRAINT volume_attachment_volume_id_fkey FOREIGN KEY (volume_id) REFERENCES volume(id),
  CONSTRAINT volume_attachment_want_check CHECK ((want = ANY (ARRAY['attached'::text, 'detached'::text])))
);

CREATE TABLE volume_move (
  ended_at timestamp with time zone,
  error text,
  final boolean NOT NULL,
  group_id uuid,
  how text NOT NULL,
  id uuid NOT NULL,
  migration_id uuid,
  percent double precision NOT NULL DEFAULT 0,
  source_host_id uuid NOT NULL,
  source_pool text NOT NULL,
  started_at timestamp with time zone NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'preparing'::text,
  target_host_id uuid NOT NULL,
  target_pool text NOT NULL,
  total_bytes bigint NOT NULL DEFAULT 0,
  transferred_bytes bigint NOT NULL DEFAULT 0,
  uri text,
  volume_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'move'::text,
  CONSTRAINT volume_move_how_check CHECK ((how = ANY (ARRAY['copied'::text, 'brought'::text]))),
  CONSTRAINT volume_move_luggage TRIGGER DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT volume_move_migration_id_fkey FOREIGN KEY (migration_id) REFERENCES migration(id) ON DELETE SET NULL,
  CONSTRAINT volume_move_pkey PRIMARY KEY (id),
  CONSTRAINT volume_move_source_host_id_fkey FOREIGN KEY (source_host_id) REFERENCES host(id),
  CONSTRAINT volume_move_state_check CHECK ((state = ANY (ARRAY['preparing'::text, 'copying'::text, 'copied'::text, 'complete'::text, 'clearing'::text, 'cancelling'::text, 'dropping'::text, 'completed'::text, 'cancelled'::text, 'failed'::text]))),
  CONSTRAINT volume_move_target_host_id_fkey FOREIGN KEY (target_host_id) REFERENCES host(id),
  CONSTRAINT volume_move_volume_id_fkey FOREIGN KEY (volume_id) REFERENCES volume(id) ON DELETE CASCADE,
  CONSTRAINT volume_move_want_check CHECK ((want = ANY (ARRAY['move'::text, 'cancel'::text])))
);

CREATE TABLE volume_snapshot (
  created_at timestamp with time zone NOT NULL DEFAULT now(),
  error text,
  id uuid NOT NULL,
  kind text NOT NULL DEFAULT 'user'::text,
  name text NOT NULL,
  pause_ms double precision,
  project_id uuid NOT NULL,
  size_bytes bigint NOT NULL DEFAULT 0,
  state text NOT NULL DEFAULT 'creating'::text,
  volume_id uuid NOT NULL,
  want text NOT NULL DEFAULT 'present'::text,
  CONSTRAINT volume_snapshot_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'schedule'::text, 'restore'::text]))),
  CONSTRAINT volume_snapshot_pkey PRIMARY KEY (id),
  CONSTRAINT volume_snapshot_state_check CHECK ((state = ANY (ARRAY['creating'::text, 'ready'::text, 'failed'::text]))),
  CONSTRAINT volume_snapshot_volume_id_fkey FOREIGN KEY (volume_id) REFERENCES volume(id) ON DELETE CASCADE,
  CONSTRAINT volume_snapshot_want_check CHECK ((want = ANY (ARRAY['present'::text, 'absent'::text])))
);

CREATE INDEX account_admins ON public.account USING btree (id) WHERE (role = 'Admin'::text);

CREATE INDEX account_default_project ON public.account USING btree (default_project_id);

CREATE UNIQUE INDEX account_email ON public.account USING btree (email);

CREATE INDEX acme_challenge_expires ON public.acme_challenge USING btree (expires_at);

CREATE UNIQUE INDEX alert_open ON public.alert USING btree (kind, machine_id, phase) WHERE (closed_at IS NULL);

CREATE INDEX alert_opened_at ON public.alert USING btree (opened_at);

CREATE INDEX app_by_name ON public.app USING btree (name) WHERE (want = 'live'::text);

CREATE INDEX app_by_project ON public.app USING btree (project_id, id DESC);

CREATE INDEX app_env_of ON public.app USING btree (env_of) WHERE (env_of IS NOT NULL);

CREATE UNIQUE INDEX app_hostname ON public.app USING btree (hostname) WHERE (want = 'live'::text);

CREATE INDEX app_may_sleep ON public.app USING btree (id) WHERE ((min_replicas = 0) AND (want = 'live'::text));

CREATE UNIQUE INDEX app_name ON public.app USING btree (project_id, name) WHERE (want = 'live'::text);

CREATE INDEX app_owned ON public.app USING btree (project_id, id) WHERE (owner <> 'user'::text);

CREATE INDEX app_scm_repo ON public.app USING btree (scm_repo_id) WHERE (want = 'live'::text);

CREATE INDEX app_env_group_group ON public.app_env_group USING btree (group_id);

CREATE INDEX app_history_age ON public.app_history USING btree (step_seconds, at);

CREATE INDEX audit_log_action ON public.audit_log USING btree (scope_id, action, id DESC);

CREATE UNIQUE INDEX audit_log_position ON public.audit_log USING btree ("position") WHERE ("position" IS NOT NULL);

CREATE INDEX audit_log_resource ON public.audit_log USING btree (scope_id, resource_type, id DESC);

CREATE INDEX audit_log_scope ON public.audit_log USING btree (scope_id, id DESC);

CREATE INDEX audit_log_unsealed ON public.audit_log USING btree (seq) WHERE ("position" IS NULL);

CREATE INDEX billing_account_check ON public.billing_account USING btree (check_at) WHERE (check_at IS NOT NULL);

CREATE INDEX billing_delivery_age ON public.billing_delivery USING btree (received_at);

CREATE INDEX billing_sandbox_event_due ON public.billing_sandbox_event USING btree (created_at) WHERE (delivered_at IS NULL);

CREATE INDEX billing_sandbox_subscription_project ON public.billing_sandbox_subscription USING btree (project_id);

CREATE INDEX billing_subscription_project ON public.billing_subscription USING btree (project_id);

CREATE UNIQUE INDEX branch_app ON public.branch USING btree (app_id);

CREATE UNIQUE INDEX branch_current ON public.branch USING btree (database_id) WHERE is_current;

CREATE INDEX branch_database ON public.branch USING btree (database_id);

CREATE UNIQUE INDEX branch_name ON public.branch USING btree (database_id, name) WHERE ((want = 'live'::text) AND (kind = 'user'::text));

CREATE INDEX branch_of_snapshot ON public.branch USING btree (created_at) WHERE ((kind = 'user'::text) AND (from_snapshot_id IS NOT NULL));

CREATE INDEX branch_restore_snapshot ON public.branch USING btree (restore_snapshot_id) WHERE (restore_snapshot_id IS NOT NULL);

CREATE UNIQUE INDEX branch_spare ON public.branch USING btree (database_id) WHERE ((kind = 'spare'::text) AND (want = 'live'::text));

CREATE INDEX branch_backup_drill ON public.branch_backup USING btree (branch_id) WHERE (drill_branch_id IS NOT NULL);

CREATE INDEX build_app ON public.build USING btree (app_id, id DESC);

CREATE UNIQUE INDEX build_deployment ON public.build USING btree (deployment_id);

CREATE INDEX build_host ON public.build USING btree (host_id) WHERE holds;

CREATE INDEX build_project ON public.build USING btree (project_id);

CREATE INDEX build_queued ON public.build USING btree (app_id) WHERE (state = 'queued'::text);

CREATE UNIQUE INDEX build_running ON public.build USING btree (app_id) WHERE holds;

CREATE INDEX build_log_kept ON public.build_log USING btree (kept_at);

CREATE INDEX captcha_expiry ON public.captcha USING btree (expires_at);

CREATE INDEX counts_reporter_age ON public.counts_reporter USING btree (seen_at);

CREATE UNIQUE INDEX database_name ON public.database USING btree (project_id, name) WHERE (want <> 'deleted'::text);

CREATE INDEX database_project ON public.database USING btree (project_id, id DESC);

CREATE INDEX database_storage_node ON public.database USING btree (storage_node) WHERE (want <> 'deleted'::text);

CREATE INDEX database_snapshot_branch ON public.database_snapshot USING btree (branch_id);

CREATE UNIQUE INDEX database_snapshot_name ON public.database_snapshot USING btree (database_id, name) WHERE (want = 'present'::text);

CREATE INDEX database_snapshot_recent ON public.database_snapshot USING btree (created_at) WHERE (kind = 'user'::text);

CREATE INDEX deployment_app ON public.deployment USING btree (app_id, id DESC);

CREATE INDEX deployment_canary ON public.deployment USING btree (app_id, rollout) WHERE (canary_state = 'running'::text);

CREATE UNIQUE INDEX deployment_job ON public.deployment USING btree (job_id);

CREATE INDEX deployment_live ON public.deployment USING btree (project_id, id DESC) INCLUDE (app_id, want) WHERE (outcome IS NULL);

CREATE INDEX domain_due ON public.domain USING btree (next_check_at);

CREATE UNIQUE INDEX domain_of_app ON public.domain USING btree (app_id, name);

CREATE INDEX domain_project ON public.domain USING btree (project_id);

CREATE UNIQUE INDEX domain_verified ON public.domain USING btree (name) WHERE (state = 'verified'::text);

CREATE INDEX email_link_expires ON public.email_link USING btree (expires_at);

CREATE UNIQUE INDEX email_link_hash ON public.email_link USING btree (hash);

CREATE INDEX event_age ON public.event USING btree (created_at);

CREATE UNIQUE INDEX event_by_project ON public.event USING btree (project_id, "position") WHERE ("position" IS NOT NULL);

CREATE UNIQUE INDEX event_position_order ON public.event USING btree ("position") WHERE ("position" IS NOT NULL);

CREATE INDEX event_unplaced ON public.event USING btree (seq) WHERE ("position" IS NULL);

CREATE UNIQUE INDEX host_name ON public.host USING btree (name) WHERE (removed_at IS NULL);

CREATE INDEX idempotency_key_age ON public.idempotency_key USING btree (created_at);

CREATE INDEX job_due ON public.job USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE UNIQUE INDEX job_name ON public.job USING btree (app_id, name);

CREATE INDEX job_of_project ON public.job USING btree (project_id);

CREATE INDEX login_backoff_age ON public.login_backoff USING btree (updated_at);

CREATE INDEX machine_due ON public.machine USING btree (wake_at);

CREATE INDEX machine_overdue ON public.machine USING btree (deadline) WHERE (deadline IS NOT NULL);

CREATE INDEX migration_deployment ON public.migration USING btree (deployment_id, id DESC);

CREATE UNIQUE INDEX migration_live ON public.migration USING btree (vm_id) WHERE (ended_at IS NULL);

CREATE INDEX migration_source ON public.migration USING btree (source_host_id);

CREATE INDEX migration_target ON public.migration USING btree (target_host_id) WHERE (ended_at IS NULL);

CREATE INDEX migration_vm ON public.migration USING btree (vm_id);

CREATE INDEX notification_account ON public.notification USING btree (account_id, id DESC);

CREATE INDEX notification_email_due ON public.notification USING btree (email_due_at) WHERE (email_due_at IS NOT NULL);

CREATE INDEX notification_plan_limit ON public.notification USING btree (created_at) WHERE (kind = 'plan.limit_reached'::text);

CREATE INDEX notification_project ON public.notification USING btree (project_id);

CREATE INDEX notification_unread ON public.notification USING btree (account_id, id DESC) WHERE (read_at IS NULL);

CREATE INDEX outgoing_mail_due ON public.outgoing_mail USING btree (due_at);

CREATE INDEX pat_account ON public.pat USING btree (account_id);

CREATE UNIQUE INDEX pat_hash ON public.pat USING btree (hash);

CREATE INDEX pat_project ON public.pat USING btree (project_id);

CREATE UNIQUE INDEX project_ipv6_prefix ON public.project USING btree (ipv6_prefix);

CREATE UNIQUE INDEX project_slug ON public.project USING btree (slug);

CREATE INDEX project_invitation_by_email ON public.project_invitation USING btree (email);

CREATE UNIQUE INDEX project_invitation_email ON public.project_invitation USING btree (project_id, email);

CREATE INDEX project_invitation_expiry ON public.project_invitation USING btree (expires_at);

CREATE INDEX project_member_account ON public.project_member USING btree (account_id);

CREATE INDEX refresh_token_account ON public.refresh_token USING btree (account_id);

CREATE INDEX refresh_token_expiry ON public.refresh_token USING btree (expires_at);

CREATE INDEX refresh_token_session ON public.refresh_token USING btree (session_id);

CREATE INDEX route_app ON public.route USING btree (app_id);

CREATE INDEX route_gone ON public.route USING btree (changed_at) WHERE (state = 'gone'::text);

CREATE INDEX route_xid ON public.route USING btree (xid);

CREATE INDEX run_ended ON public.run USING btree (ended_at);

CREATE INDEX run_of_app ON public.run USING btree (app_id, id);

CREATE INDEX run_of_deployment ON public.run USING btree (deployment_id);

CREATE UNIQUE INDEX run_of_job ON public.run USING btree (job_id, due_at, attempt);

CREATE INDEX run_of_job_failed ON public.run USING btree (ended_at) WHERE ((due_at IS NOT NULL) AND (outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'lost'::text])));

CREATE INDEX run_of_project ON public.run USING btree (project_id);

CREATE INDEX scm_binding_project ON public.scm_binding USING btree (project_id);

CREATE INDEX scm_delivery_received ON public.scm_delivery USING btree (received_at);

CREATE INDEX scm_effect_received ON public.scm_effect USING btree (received_at);

CREATE INDEX scm_state_used ON public.scm_state USING btree (used_at);

CREATE INDEX security_rule_app ON public.security_rule USING btree (app_id, priority, id);

CREATE INDEX security_rule_project ON public.security_rule USING btree (project_id);

CREATE INDEX session_account ON public.session USING btree (account_id, ip_address);

CREATE INDEX session_age ON public.session USING btree (created_at);

CREATE INDEX ssh_key_by_fingerprint ON public.ssh_key USING btree (fingerprint);

CREATE UNIQUE INDEX ssh_key_fingerprint ON public.ssh_key USING btree (account_id, fingerprint);

CREATE INDEX tunnel_password_account ON public.tunnel_password USING btree (account_id);

CREATE INDEX tunnel_password_expires ON public.tunnel_password USING btree (expires_at);

CREATE INDEX tunnel_password_project ON public.tunnel_password USING btree (project_id);

CREATE INDEX usage_egress_seen ON public.usage_egress USING btree (seen_at);

CREATE INDEX usage_span_ended ON public.usage_span USING btree (ended_at);

CREATE UNIQUE INDEX usage_span_open ON public.usage_span USING btree (vm_id) WHERE (ended_at IS NULL);

CREATE INDEX usage_span_project ON public.usage_span USING btree (project_id, started_at);

CREATE INDEX vm_app ON public.vm USING btree (app_id);

CREATE INDEX vm_deployment ON public.vm USING btree (deployment_id);

CREATE INDEX vm_host ON public.vm USING btree (host_id);

CREATE UNIQUE INDEX vm_ipv6 ON public.vm USING btree (ipv6_address);

CREATE INDEX vm_of_run ON public.vm USING btree (run_id) WHERE (run_id IS NOT NULL);

CREATE INDEX vm_project ON public.vm USING btree (project_id, id DESC);

CREATE INDEX vm_disk_attachment ON public.vm_disk USING btree (attachment_id);

CREATE INDEX vm_disk_volume ON public.vm_disk USING btree (volume_id);

CREATE UNIQUE INDEX vm_disk_writer ON public.vm_disk USING btree (volume_id) WHERE (NOT read_only);

CREATE INDEX vm_log_app_gone ON public.vm_log USING btree (host_id, app_id) WHERE app_gone;

CREATE INDEX vm_log_ended ON public.vm_log USING btree (ended_at);

CREATE INDEX vm_log_of_app ON public.vm_log USING btree (app_id, ended_at DESC);

CREATE INDEX vm_session_ended ON public.vm_session USING btree (ended_at) WHERE removed;

CREATE INDEX vm_session_in_guests ON public.vm_session USING btree (vm_id) WHERE (NOT removed);

CREATE INDEX vm_session_of_deployment ON public.vm_session USING btree (deployment_id, id);

CREATE INDEX vm_session_open ON public.vm_session USING btree (project_id) WHERE (ended_at IS NULL);

CREATE INDEX vm_snapshot_app ON public.vm_snapshot USING btree (app_id);

CREATE INDEX vm_snapshot_deployment ON public.vm_snapshot USING btree (deployment_id);

CREATE INDEX vm_snapshot_host ON public.vm_snapshot USING btree (host_id);

CREATE INDEX vm_snapshot_moving ON public.vm_snapshot USING btree (moving_to) WHERE (moving_to IS NOT NULL);

CREATE UNIQUE INDEX vm_snapshot_name ON public.vm_snapshot USING btree (deployment_id, name) WHERE ((want = 'present'::text) AND (kind = 'user'::text));

CREATE UNIQUE INDEX vm_snapshot_sleep ON public.vm_snapshot USING btree (deployment_id) WHERE ((want = 'present'::text) AND (kind = 'sleep'::text));

CREATE INDEX vm_snapshot_vm ON public.vm_snapshot USING btree (vm_id) WHERE (want = 'present'::text);

CREATE INDEX vm_snapshot_move_group ON public.vm_snapshot_move USING btree (group_id);

CREATE UNIQUE INDEX vm_snapshot_move_live ON public.vm_snapshot_move USING btree (snapshot_id) WHERE (state = ANY (ARRAY['preparing'::text, 'copying'::text, 'complete'::text, 'cancelling'::text]));

CREATE INDEX vm_snapshot_move_migration ON public.vm_snapshot_move USING btree (migration_id);

CREATE INDEX vm_snapshot_move_snapshot ON public.vm_snapshot_move USING btree (snapshot_id, id DESC);

CREATE INDEX vm_snapshot_move_source ON public.vm_snapshot_move USING btree (source_host_id) WHERE (ended_at IS NULL);

CREATE INDEX vm_snapshot_move_target ON public.vm_snapshot_move USING btree (target_host_id) WHERE (ended_at IS NULL);

CREATE INDEX volume_from_snapshot ON public.volume USING btree (from_snapshot_id) WHERE (from_snapshot_id IS NOT NULL);

CREATE INDEX volume_host ON public.volume USING btree (host_id);

CREATE INDEX volume_moving ON public.volume USING btree (moving_to) WHERE (moving_to IS NOT NULL);

CREATE UNIQUE INDEX volume_name ON public.volume USING btree (project_id, owner, name) WHERE (want = 'present'::text);

CREATE INDEX volume_project ON public.volume USING btree (project_id, id DESC);

CREATE INDEX volume_scheduled ON public.volume USING btree (scheduled_at) WHERE (schedule_minutes IS NOT NULL);

CREATE INDEX volume_source ON public.volume USING btree (from_volume_id);

CREATE INDEX volume_attachment_deployment ON public.volume_attachment USING btree (deployment_id);

CREATE UNIQUE INDEX volume_attachment_mount ON public.volume_attachment USING btree (app_id, mount_point);

CREATE UNIQUE INDEX volume_attachment_volume ON public.volume_attachment USING btree (app_id, volume_id);

CREATE UNIQUE INDEX volume_attachment_writer ON public.volume_attachment USING btree (volume_id) WHERE (access_mode = 0);

CREATE INDEX volume_move_group ON public.volume_move USING btree (group_id) WHERE (group_id IS NOT NULL);

CREATE UNIQUE INDEX volume_move_live ON public.volume_move USING btree (volume_id) WHERE (state = ANY (ARRAY['preparing'::text, 'copying'::text, 'copied'::text, 'complete'::text, 'cancelling'::text]));

CREATE INDEX volume_move_migration ON public.volume_move USING btree (migration_id);

CREATE INDEX volume_move_source ON public.volume_move USING btree (source_host_id) WHERE (ended_at IS NULL);

CREATE INDEX volume_move_target ON public.volume_move USING btree (target_host_id) WHERE (ended_at IS NULL);

CREATE INDEX volume_move_volume ON public.volume_move USING btree (volume_id, id DESC);

CREATE UNIQUE INDEX volume_snapshot_name ON public.volume_snapshot USING btree (volume_id, name) WHERE (want = 'present'::text);

CREATE INDEX volume_snapshot_volume ON public.volume_snapshot USING btree (volume_id);

CREATE OR REPLACE FUNCTION public.audit_log_is_append_only()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    -- The generated column is computed only after this trigger.
    IF OLD.position IS NULL AND NEW.position IS NOT NULL
      AND to_jsonb(NEW) - '{position,hash,scope_id}'::text[] = to_jsonb(OLD) - '{position,hash,scope_id}'::text[] THEN
      RETURN NEW;
    END IF;
  ELSIF TG_OP = 'DELETE' AND OLD.position IS NOT NULL AND current_setting('mote.audit_retention', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'audit_log is append-only';
END $function$;

CREATE OR REPLACE FUNCTION public.notify_network()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_notify('network', '');
  RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.notify_network_of_project()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_notify('network', coalesce(NEW.project_id, OLD.project_id)::text);
  RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.raise_removed_snapshot()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  NEW.generation := OLD.generation + 1;
  RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION public.refuse_to_leave_luggage()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF EXISTS (SELECT FROM vm_snapshot_move x JOIN vm_snapshot s ON s.id = x.snapshot_id
             WHERE x.group_id IN (NEW.group_id, NEW.migration_id) AND x.want = 'move'
               AND x.state IN ('preparing', 'copying', 'complete') AND s.want = 'present') THEN
    RAISE EXCEPTION 'volume % would become another host''s without the snapshots of VMs that have copies of it', NEW.volume_id;
  END IF;
  RETURN NULL;
END
$function$;

CREATE TRIGGER app_network AFTER UPDATE ON public.app FOR EACH ROW WHEN ((((old.active_deployment_id IS DISTINCT FROM new.active_deployment_id) OR (old.want IS DISTINCT FROM new.want)) OR (old.name IS DISTINCT FROM new.name))) EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER app_network_new AFTER INSERT ON public.app FOR EACH ROW EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_is_append_only();

CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_append_only();

CREATE TRIGGER branch_network AFTER UPDATE ON public.branch FOR EACH ROW WHEN ((((old.is_current IS DISTINCT FROM new.is_current) OR (old.app_id IS DISTINCT FROM new.app_id)) OR (old.want IS DISTINCT FROM new.want))) EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER database_network AFTER UPDATE ON public.database FOR EACH ROW WHEN (((old.name IS DISTINCT FROM new.name) OR (old.want IS DISTINCT FROM new.want))) EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER host_network AFTER UPDATE ON public.host FOR EACH ROW WHEN ((old.removed_at IS DISTINCT FROM new.removed_at)) EXECUTE FUNCTION notify_network();

CREATE TRIGGER mesh_network AFTER INSERT OR DELETE OR UPDATE ON public.mesh_host FOR EACH ROW EXECUTE FUNCTION notify_network();

CREATE TRIGGER prefix_network AFTER UPDATE ON public.private_network FOR EACH ROW EXECUTE FUNCTION notify_network();

CREATE TRIGGER vm_network AFTER UPDATE ON public.vm FOR EACH ROW WHEN ((((old.host_id IS DISTINCT FROM new.host_id) OR (old.healthy IS DISTINCT FROM new.healthy)) OR (old.want IS DISTINCT FROM new.want))) EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER vm_network_gone AFTER DELETE ON public.vm FOR EACH ROW EXECUTE FUNCTION notify_network_of_project();

CREATE TRIGGER vm_snapshot_removed BEFORE UPDATE ON public.vm_snapshot FOR EACH ROW WHEN (((old.want = 'present'::text) AND (new.want = 'absent'::text) AND (new.generation = old.generation))) EXECUTE FUNCTION raise_removed_snapshot();

CREATE CONSTRAINT TRIGGER volume_move_luggage AFTER UPDATE ON public.volume_move DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.state IS DISTINCT FROM 'clearing'::text) AND (new.state = 'clearing'::text))) EXECUTE FUNCTION refuse_to_leave_luggage();
