/**
 * Measures the rate of `POST /v1/auth/refresh`, one after the other, compared with the bare transaction that replaces
 * a row; with 2,000 to 200,000 refresh tokens in the database.
 */
import { Pool } from 'undici'
import { type Benchmark, median } from './benchmark.ts'
import { startLeast } from './least.ts'
import type { Plane } from './plane.ts'
import { growthOf, planesOf } from './planes.ts'
import { inTurns, ratioOfRounds, warm } from './turns.ts'

const rounds = 15
const count = 50
const tokens = [2000, 20_000, 200_000] as const

export const refresh: Benchmark = {
  name: 'refresh',
  goal: 'refreshing a session at 40 % of the rate of the bare transaction, with a few tokens and with 200,000',
  covers: ['B15'],
  how: 'Refreshes run one after the other, because each needs the token of the previous one. The limit is a durable transaction by node-pg that marks one row as used and inserts another. Mote also checks the session, writes an audit entry and signs a token, behind HTTP on one keep-alive connection. The minimal server is bare Node behind HTTP with the transaction by node-pg. To measure the growth, three control planes with 2,000, 20,000 and 200,000 tokens of others alternate.',
  reading:
    'Mote needs two round trips to PostgreSQL (BEGIN with the rotation, the audit entry with COMMIT), the bare transaction four on a socket. The minimal server shows the cost of HTTP: it reaches 0.5 of the rate of the bare transaction, so the goal of 0.40 is four fifths of what the minimal server reaches. Mote reaches half of the minimal server: it limits and logs the request, validates request and answer, checks the session, hashes two tokens, signs one, and writes an audit entry. Until 2026-11-21, 19:00, the client was fetch, which needs more CPU per request than the server.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const acts = new Map<Plane, () => Promise<number>>()
    const planes = await planesOf(cleanup, tokens, async (plane, at) => {
      await seedTokens(plane, at)
      acts.set(plane, refreshes(cleanup, plane))
    })
    const product = (plane: Plane) => acts.get(plane)?.() ?? Promise.reject(new Error('BUG: it is one of them'))
    const series = { what: 'refresh', unit: 'ms', along: 'tokens of others', law: 'flat' } as const
    const growth = await growthOf(report, series, rounds, planes, async plane => 1000 / (await product(plane)))
    const [{ plane }] = planes
    const bare = await bareOf(plane)
    const least = await leastOf(cleanup, plane)
    const found = await inTurns(rounds, { product: () => product(plane), bare, least }, warm)
    report.samples('refresh', '/s', found.product)
    report.samples('bare transaction', '/s', found.bare)
    report.samples('minimal server: transaction behind HTTP', '/s', found.least)
    report.atLeast('rate of refreshes / rate of the bare transaction', ratioOfRounds(found.product, found.bare), 0.4)
    report.verdict('time of a refresh among 200,000 tokens / among 2,000', growth, 1.2)
    report.note(
      `rate of refreshes / rate of the minimal server: ${ratioOfRounds(found.product, found.least).toFixed(2)}`,
    )
    report.note(
      `rate of the minimal server / rate of the bare transaction: ${ratioOfRounds(found.least, found.bare).toFixed(2)}`,
    )
    report.note(`time of a refresh (median): ${(1000 / median(found.product)).toFixed(2)} ms`)
  },
}

const rateOf = async (act: () => Promise<unknown>) => {
  const began = performance.now()
  for (let n = 0; n < count; n++) await act()
  return count / ((performance.now() - began) / 1000)
}

async function seedTokens({ sql }: Plane, at: number): Promise<void> {
  await sql.query(
    `INSERT INTO refresh_token (hash, session_id, account_id, expires_at)
     SELECT sha256(n::text::bytea), s.id, s.account_id, now() + interval '1 day' FROM generate_series(1, $1::int) n, (SELECT * FROM session LIMIT 1) s`,
    [at],
  )
  await sql.query('VACUUM ANALYZE refresh_token')
}

/** Returns the number of refreshes per second, each with the token from the previous response. */
function refreshes(cleanup: AsyncDisposableStack, plane: Plane): () => Promise<number> {
  const pool = new Pool(plane.url, { connections: 1 })
  cleanup.defer(() => pool.close())
  let token = plane.refreshToken
  return () =>
    rateOf(async () => {
      const answer = await pool.request({
        path: '/v1/auth/refresh',
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ refresh_token: token }),
      })
      const body = (await answer.body.json()) as { refresh_token?: string }
      if (body.refresh_token === undefined) throw new Error(`a refresh answered ${answer.statusCode}`)
      token = body.refresh_token
    })
}

/** Returns a function that runs a durable transaction, which marks one row as used and inserts another. */
async function bareOf({ sql }: Plane): Promise<() => Promise<number>> {
  await sql.query(
    `CREATE TABLE bench_token (hash bytea PRIMARY KEY, used_at timestamptz);
     INSERT INTO bench_token SELECT sha256(n::text::bytea) FROM generate_series(1, 100000) n`,
  )
  let next = 0
  return () =>
    rateOf(async () => {
      const id = String(++next)
      await sql.query('BEGIN')
      const text = 'UPDATE bench_token SET used_at = now() WHERE hash = sha256($1::text::bytea) AND used_at IS NULL'
      await sql.query({ name: 'bench.use', text, values: [id] })
      const fresh = `INSERT INTO bench_token VALUES (sha256(('f' || $1)::text::bytea))`
      await sql.query({ name: 'bench.fresh', text: fresh, values: [id] })
      await sql.query('COMMIT')
    })
}

/** Runs the bare transaction behind a bare Node HTTP server, over one kept-alive connection. */
async function leastOf(cleanup: AsyncDisposableStack, plane: Plane): Promise<() => Promise<number>> {
  await plane.sql.query(
    `CREATE TABLE least_token (hash bytea PRIMARY KEY, used_at timestamptz); CREATE SEQUENCE least_next;
     INSERT INTO least_token SELECT sha256(n::text::bytea) FROM generate_series(1, 100000) n`,
  )
  const query = (name: string, text: string) => ({ name: `least.${name}`, text, values: [] })
  const least = cleanup.use(
    await startLeast(plane, [
      query('begin', 'BEGIN'),
      query(
        'use',
        `WITH next AS MATERIALIZED (SELECT sha256(nextval('least_next')::text::bytea) AS hash)
         UPDATE least_token t SET used_at = now() FROM next WHERE t.hash = next.hash AND t.used_at IS NULL`,
      ),
      query('fresh', `INSERT INTO least_token SELECT sha256(('f' || currval('least_next'))::bytea)`),
      query('commit', 'COMMIT'),
    ]),
  )
  const pool = new Pool(least.url, { connections: 1 })
  cleanup.defer(() => pool.close())
  return () =>
    rateOf(async () => {
      const { body } = await pool.request({ path: '/', method: 'POST', body: '{}' })
      await body.dump()
    })
}
