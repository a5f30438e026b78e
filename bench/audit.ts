/**
 * Measures the time to read the first page of an audit log and the exact number of its entries, with a million rows
 * (`MOTE_BENCH_AUDIT_ROWS`).
 */
import pg from 'pg'
import { auditPage, auditTotal } from '../src/control/audit/store.ts'
import { newest } from '../src/control/http/paging.ts'
import { startBenchApi } from './api.ts'
import type { Benchmark } from './benchmark.ts'

const filters = [
  ['no filter', undefined, undefined],
  ['filter by action', 'app.7', undefined],
  ['filter by a rare type', undefined, 'rare'],
  ['filter by action and a rare type', 'app.0', 'rare'],
  ['filter without matches', 'no.such', undefined],
] as const

const rowsAtOnce = 100_000
/**
 * Inserts audit entries like those of the product: with time-ordered ids (RFC 9562, version 7), so that each index
 * grows at its end, and with hashes of the same length.
 */
const insertRows = `INSERT INTO audit_log (id, account_id, project_id, action, resource_type, details, position, hash)
  SELECT (lpad(to_hex(i), 8, '0') || '-0000-7000-8000-' || substr(md5(i::text), 1, 12))::uuid, a.id, a.default_project_id,
    'app.' || (i % 20), CASE i % 1000 WHEN 0 THEN 'rare' ELSE 'app' END, '{"some": "details"}', i, sha256(i::text::bytea)
  FROM account a, generate_series($1::bigint, $2::bigint) AS i`

export const audit: Benchmark = {
  name: 'audit',
  goal: 'the first page of a million audit rows in at most 20 ms, whatever the filter',
  covers: ['B23'],
  how: 'Runs the two statements that read the first page, for its rows and for the exact total, in a table of a million rows, with different filters of the API.',
  async run(report) {
    const rows = Number(process.env['MOTE_BENCH_AUDIT_ROWS'] ?? 1_000_000)
    await using api = await startBenchApi()
    const client = new pg.Client({ connectionString: api.databaseUrl })
    await client.connect()
    try {
      for (let from = 1; from <= rows; from += rowsAtOnce)
        await client.query(insertRows, [from, Math.min(rows, from + rowsAtOnce - 1)])
      await client.query(
        `INSERT INTO audit_count SELECT scope_id, action, resource_type, count(*) FROM audit_log
         WHERE position IS NOT NULL GROUP BY 1, 2, 3`,
      )
      await client.query('VACUUM ANALYZE audit_log')
      const { rows: accounts } = await client.query<{ id: string; project: string }>(
        'SELECT id, default_project_id AS project FROM account',
      )
      const [account] = accounts
      if (!account) throw new Error('BUG: the bench has an account')
      for (const [name, action, resourceType] of filters) {
        const filter = { projectId: account.project, accountId: account.id, action, resourceType }
        const times: number[] = []
        for (let i = 0; i < 100; i++) {
          const began = performance.now()
          await Promise.all([auditPage(api.db, filter, newest(50)), auditTotal(api.db, filter)])
          times.push(performance.now() - began)
        }
        report.verdict(
          `first page of the audit log (${name}), median ms`,
          report.samples(`${rows} rows, ${name}`, 'ms', times).median,
          20,
        )
      }
    } finally {
      await client.end()
    }
  },
}
