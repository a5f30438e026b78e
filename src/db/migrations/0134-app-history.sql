-- Requests and resource usage of apps over time. Rows of 30 seconds are summed into rows of 5 minutes and of an hour.
CREATE TABLE app_history (
  app_id uuid NOT NULL REFERENCES app ON DELETE CASCADE,
  step_seconds integer NOT NULL,
  -- Start of the period.
  at timestamptz NOT NULL,
  -- Requests, as gateways report them.
  status_1xx bigint NOT NULL DEFAULT 0,
  status_2xx bigint NOT NULL DEFAULT 0,
  status_3xx bigint NOT NULL DEFAULT 0,
  status_4xx bigint NOT NULL DEFAULT 0,
  status_5xx bigint NOT NULL DEFAULT 0,
  aborted bigint NOT NULL DEFAULT 0,
  gateway_errors bigint NOT NULL DEFAULT 0,
  bytes_in bigint NOT NULL DEFAULT 0,
  bytes_out bigint NOT NULL DEFAULT 0,
  -- Histogram with the buckets of src/contract/request-counts.ts. Null: no requests.
  latency bigint[],
  -- Sums over the samples of its VMs; divided by their number they are means.
  samples integer NOT NULL DEFAULT 0,
  cpu_sum float8 NOT NULL DEFAULT 0,
  cpu_peak float8 NOT NULL DEFAULT 0,
  ram_sum float8 NOT NULL DEFAULT 0,
  ram_peak float8 NOT NULL DEFAULT 0,
  memory_sum float8 NOT NULL DEFAULT 0,
  replicas_sum bigint NOT NULL DEFAULT 0,
  rx_bytes bigint NOT NULL DEFAULT 0,
  tx_bytes bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (app_id, step_seconds, at)
) WITH (fillfactor = 70);
CREATE INDEX app_history_age ON app_history (step_seconds, at);
-- Up to when the rows of a step have been summed from finer ones.
CREATE TABLE history_mark (
  step_seconds integer PRIMARY KEY,
  rolled_until timestamptz NOT NULL
);
-- An hour ago, so that reports that were delayed during the upgrade are summed too.
INSERT INTO history_mark SELECT step, date_bin(make_interval(secs => step), now() - interval '1 hour', '1970-01-01Z')
  FROM unnest(ARRAY[300, 3600]) step;
-- The last report of each gateway, so that a repeated report is not counted again.
CREATE TABLE counts_reporter (
  id uuid PRIMARY KEY,
  seq bigint NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX counts_reporter_age ON counts_reporter (seen_at);
