/** `POST /v1/auth/refresh`, one after the other, beside the bare transaction that replaces a row. */
import { type Benchmark, median } from './benchmark.ts'
import { post, startPlane } from './plane.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 9
const count = 100

export const refresh: Benchmark = {
  name: 'refresh',
  goal: 'refreshing a session at 40 % of the rate of the bare transaction, with a few tokens and with 200,000',
  covers: ['B15'],
  how: 'One after the other, because each refresh needs the token of the one before. The limit is a durable transaction by node-pg that marks one row used and inserts another. The product does that, checks the session, writes an audit entry and signs a token, behind HTTP.',
  reading:
    'The product speaks HTTP, checks what it is given, writes an audit entry and signs a token; it makes two round trips to PostgreSQL (BEGIN with the rotation, the audit entry with COMMIT) where the bare transaction makes four on a socket. What is left is HTTP through a client of this process, which the bare transaction has not.',
  async run(report) {
    await using plane = await startPlane()
    await plane.sql.query(
      `CREATE TABLE bench_token (hash bytea PRIMARY KEY, used_at timestamptz);
       INSERT INTO bench_token SELECT sha256(n::text::bytea) FROM generate_series(1, 100000) n`,
    )
    let token = plane.refreshToken
    let next = 0
    const rate = async (act: () => Promise<unknown>) => {
      const began = performance.now()
      for (let n = 0; n < count; n++) await act()
      return count / ((performance.now() - began) / 1000)
    }
    const product = () =>
      rate(async () => {
        token = String((await post(`${plane.url}/v1/auth/refresh`, { refresh_token: token }))['refresh_token'])
      })
    const { sql } = plane
    const bare = () =>
      rate(async () => {
        const id = String(++next)
        await sql.query('BEGIN')
        const text = 'UPDATE bench_token SET used_at = now() WHERE hash = sha256($1::text::bytea) AND used_at IS NULL'
        await sql.query({ name: 'bench.use', text, values: [id] })
        const fresh = `INSERT INTO bench_token VALUES (sha256(('f' || $1)::text::bytea))`
        await sql.query({ name: 'bench.fresh', text: fresh, values: [id] })
        await sql.query('COMMIT')
      })
    const few = await inTurns(rounds, { product, bare })
    await sql.query(
      `INSERT INTO refresh_token (hash, session_id, account_id, expires_at)
       SELECT sha256(n::text::bytea), s.id, s.account_id, now() + interval '1 day' FROM generate_series(1, 200000) n, (SELECT * FROM session LIMIT 1) s`,
    )
    await sql.query('ANALYZE refresh_token')
    const many = await inTurns(rounds, { product, bare })
    report.samples('refresh', '/s', few.product)
    report.samples('bare transaction', '/s', few.bare)
    report.samples('refresh, of 200,000 tokens', '/s', many.product)
    const share = ratioOfRounds(few.product, few.bare)
    report.atLeast('refresh / bare transaction', share, 0.4)
    report.verdict('cost among 200,000 / at the start', share / ratioOfRounds(many.product, many.bare), 1.2)
    report.note(`median ${(1000 / median(few.product)).toFixed(2)} ms for a refresh`)
  },
}
