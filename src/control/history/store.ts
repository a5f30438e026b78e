import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import { type CountsReport, latencyBuckets } from '../../contract/request-counts.ts'
import { type Part, type Row, type Step, countColumns, samplePeaks, sampleSums, steps } from './rules.ts'

const plus = (column: string) => `${column} = h.${column} + excluded.${column}`
const larger = (column: string) => `${column} = greatest(h.${column}, excluded.${column})`
const buckets = Array.from({ length: latencyBuckets }, (_, index) => index + 1)
const latencyPlus = `latency = CASE WHEN h.latency IS NULL THEN excluded.latency WHEN excluded.latency IS NULL THEN h.latency
     ELSE ARRAY[${buckets.map(n => `h.latency[${n}] + excluded.latency[${n}]`).join(', ')}] END`

const acceptReport = statement<{ id: string }>(
  'history.acceptReport',
  `INSERT INTO counts_reporter AS r (id, seq) VALUES ($1, $2)
   ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, seen_at = now() WHERE r.seq < excluded.seq RETURNING id`,
)
// Locks the apps first and in id order (docs/engine.md), because deleting an app locks the app's row before its
// history.
const heldApps = `held AS (SELECT a.id FROM app a WHERE a.id IN (SELECT app_id FROM given) ORDER BY a.id FOR KEY SHARE)`
const addCounts = statement(
  'history.addCounts',
  `WITH given AS (
     SELECT * FROM jsonb_to_recordset($2::jsonb) AS t(app_id uuid, ${countColumns.map(name => `${name} bigint`).join(', ')}, latency bigint[])
   ), ${heldApps}
   INSERT INTO app_history AS h (app_id, step_seconds, at, ${countColumns.join(', ')}, latency)
   SELECT app_id, ${steps[0]}, $1, ${countColumns.join(', ')}, latency FROM given JOIN held ON held.id = given.app_id ORDER BY app_id
   ON CONFLICT (app_id, step_seconds, at) DO UPDATE SET ${countColumns.map(plus).join(', ')}, ${latencyPlus}`,
)
const sampleColumns = [...sampleSums, ...samplePeaks]
const addSamples = statement(
  'history.addSamples',
  `WITH given AS (
     SELECT * FROM jsonb_to_recordset($2::jsonb) AS t(app_id uuid, ${sampleColumns.map(name => `${name} float8`).join(', ')})
   ), ${heldApps}
   INSERT INTO app_history AS h (app_id, step_seconds, at, ${sampleColumns.join(', ')})
   SELECT app_id, ${steps[0]}, $1, ${sampleColumns.join(', ')} FROM given JOIN held ON held.id = given.app_id ORDER BY app_id
   ON CONFLICT (app_id, step_seconds, at) DO UPDATE SET ${sampleSums.map(plus).join(', ')}, ${samplePeaks.map(larger).join(', ')}`,
)

const rolled = [...countColumns, ...sampleSums]
const rollUp = statement(
  'history.rollUp',
  `INSERT INTO app_history AS h (app_id, step_seconds, at, ${[...rolled, ...samplePeaks].join(', ')}, latency)
   SELECT app_id, $1::int, date_bin(make_interval(secs => $1), at, '1970-01-01Z') AS start, ${rolled.map(name => `sum(${name})`).join(', ')},
     ${samplePeaks.map(name => `max(${name})`).join(', ')},
     CASE WHEN count(latency) > 0 THEN ARRAY[${buckets.map(n => `coalesce(sum(latency[${n}]), 0)`).join(', ')}]::bigint[] END
   FROM app_history WHERE step_seconds = $2 AND at >= $3 AND at < $4 GROUP BY app_id, start ORDER BY app_id
   ON CONFLICT (app_id, step_seconds, at) DO UPDATE SET
     ${[...rolled, ...samplePeaks, 'latency'].map(name => `${name} = excluded.${name}`).join(', ')}`,
)
const lockMark = statement<{ until: Date }>(
  'history.lockMark',
  `SELECT rolled_until AS until FROM history_mark WHERE step_seconds = $1 FOR UPDATE`,
)
const moveMark = statement('history.moveMark', `UPDATE history_mark SET rolled_until = $2 WHERE step_seconds = $1`)
const marksOf = statement<{ step: number; until: Date }>(
  'history.marks',
  `SELECT step_seconds AS step, rolled_until AS until FROM history_mark`,
)

// Returns each row as JSON, so that bigint and double precision columns arrive as numbers.
const rowsOf = statement<{ row: Row }>(
  'history.rows',
  `SELECT json_build_object('atMs', extract(epoch FROM h.at) * 1000, ${[...rolled, ...samplePeaks, 'latency']
    .map(name => `'${name}', h.${name}`)
    .join(', ')}) AS row
   FROM unnest($2::int[], $3::timestamptz[], $4::timestamptz[]) AS part(step, since, until)
   JOIN app_history h ON h.app_id = $1 AND h.step_seconds = part.step AND h.at >= part.since AND h.at < part.until`,
)

export interface RunningVm {
  readonly id: string
  readonly appId: string
  readonly memoryMib: number
}
const runningVms = statement<RunningVm>(
  'history.runningVms',
  `SELECT v.id, d.app_id AS "appId", d.memory_mib AS "memoryMib" FROM vm v JOIN deployment d ON d.id = v.deployment_id
   JOIN app a ON a.id = d.app_id AND a.owner = 'user' WHERE v.host_id IS NOT NULL AND v.run_id IS NULL`,
)

/** Maximum number of rows that one statement deletes, so that it does not hold too many locks. */
export const forgetBatch = 10_000
const forgetRows = statement(
  'history.forget',
  `DELETE FROM app_history WHERE (app_id, step_seconds, at) IN
     (SELECT app_id, step_seconds, at FROM app_history WHERE step_seconds = $1 AND at < $2 LIMIT ${forgetBatch})`,
)
const forgetReporters = statement('history.forgetReporters', `DELETE FROM counts_reporter WHERE seen_at < $1`)

/** Records the sequence number of a report. Returns false if the report was already stored. */
export const accept = async (tx: Tx, { reporterId, seq }: Pick<CountsReport, 'reporterId' | 'seq'>) =>
  (await tx.maybe(acceptReport, [reporterId, seq])) !== undefined
export const addRequests = (tx: Tx, at: Date, apps: CountsReport['apps']) =>
  tx.run(addCounts, [
    at,
    JSON.stringify(
      apps.map(({ appId, statuses, aborted, gatewayErrors, bytesIn, bytesOut, latency }) => ({
        app_id: appId,
        ...Object.fromEntries(statuses.map((count, digit) => [`status_${digit + 1}xx`, count])),
        aborted,
        gateway_errors: gatewayErrors,
        bytes_in: bytesIn,
        bytes_out: bytesOut,
        latency,
      })),
    ),
  ])

export type Sample = { readonly app_id: string } & Record<
  (typeof sampleSums)[number] | (typeof samplePeaks)[number],
  number
>
export const addUsage = (sql: Sql, at: Date, samples: readonly Sample[]) =>
  sql.run(addSamples, [at, JSON.stringify(samples)])
export const vms = (db: Db) => db.rows(runningVms)
/**
 * Returns the time up to which rows of this period exist, and locks the row that stores it until the transaction ends.
 */
export const mark = async (tx: Tx, step: Step) => (await tx.one(lockMark, [step])).until
export const setMark = (tx: Tx, step: Step, until: Date) => tx.run(moveMark, [step, until])
/** Writes the rows of this period in a time span as sums of the finer rows. Existing rows are replaced. */
export const roll = (tx: Tx, step: Step, finer: Step, from: Date, until: Date) =>
  tx.run(rollUp, [step, finer, from, until])
export const marks = async (sql: Sql) =>
  new Map((await sql.rows(marksOf)).map(({ step, until }) => [step, until.getTime()]))
export const rows = async (sql: Sql, appId: string, parts: readonly Part[]) =>
  (
    await sql.rows(rowsOf, [
      appId,
      parts.map(part => part.step),
      parts.map(part => new Date(part.fromMs)),
      parts.map(part => new Date(part.toMs)),
    ])
  ).map(({ row }) => row)
export const forget = (sql: Sql, step: Step, before: Date) => sql.run(forgetRows, [step, before])
export const forgetOldReporters = (sql: Sql, before: Date) => sql.run(forgetReporters, [before])
