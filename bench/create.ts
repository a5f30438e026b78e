/** `POST` of an app and of a rule, durable, beside one durable INSERT; at an empty and at a full table. */
import { type Benchmark, median } from './benchmark.ts'
import { drive } from './http-load.ts'
import { post, startPlane } from './plane.ts'
import { seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const load = { requests: 150, inFlight: 8 }

export const create: Benchmark = {
  name: 'create',
  goal: 'creating an app or a rule at 30 % of the rate of one bare INSERT, and as fast among 100,000 apps',
  covers: ['B4'],
  how: 'Eight at a time. The product validates, checks who asks and the limits of his plan, locks his project, writes the row, the audit entry with its hash and the event of the outbox, and commits with fsync. The limit is one INSERT with fsync by eight connections of node-pg.',
  reading:
    'All creates are of one tenant, the slowest case: the row of the project is locked, for the limits of its plan, during five round trips (lock, count, insert, audit, commit), so its creates are one after the other while the bare INSERTs of eight connections share their commits. PostgreSQL itself works 1.2 ms for all seven statements; the rest is waiting for a turn.',
  async run(report) {
    await using plane = await startPlane()
    await plane.sql.query('CREATE TABLE bench_row (id bigserial PRIMARY KEY, name text, data jsonb)')
    await post(`${plane.url}/v1/apps`, { name: 'ruled', git_url: '' }, plane.jwt)
    const { default: pg } = await import('pg')
    await using cleanup = new AsyncDisposableStack()
    const pool = new pg.Pool({ connectionString: plane.databaseUrl, max: load.inFlight })
    cleanup.defer(() => pool.end())
    const insert = async () => {
      const began = performance.now()
      let left = load.requests * 4
      const query = { name: 'bench.insert', text: 'INSERT INTO bench_row (name, data) VALUES ($1, $2)' }
      const worker = async () => {
        while (left-- > 0) await pool.query({ ...query, values: ['a name', '{"some": "details of the row"}'] })
      }
      await Promise.all(Array.from({ length: load.inFlight }, worker))
      return (load.requests * 4) / ((performance.now() - began) / 1000)
    }
    let n = 0
    const app = async () => {
      const body = () => ({ name: `app-${++n}`, git_url: '' })
      return (await drive(plane.url, { path: '/v1/apps', method: 'POST', token: plane.jwt, body }, load)).perSecond
    }
    const rule = async () => {
      const body = () => ({ protocol: 'tcp', port_start: 1 + (++n % 60_000), port_end: 60_001, action: 'allow' })
      const path = '/v1/apps/ruled/security-groups'
      const turn = await drive(
        plane.url,
        { path, method: 'POST', token: plane.jwt, body },
        { requests: 5, inFlight: 1 },
      )
      await plane.sql.query('DELETE FROM security_rule')
      return turn.perSecond
    }
    const few = await inTurns(rounds, { app, insert })
    report.samples('POST app', '/s', few.app)
    report.samples('INSERT', '/s', few.insert)
    report.samples('POST rule, one after the other', '/s', (await inTurns(rounds, { rule })).rule)
    await seedTenants(plane.sql, 1_000, 100, 'other')
    const many = await inTurns(rounds, { app, insert })
    report.samples('POST app, of 100,000', '/s', many.app)
    const share = ratioOfRounds(few.app, few.insert)
    report.atLeast('POST app / INSERT', share, 0.3)
    report.verdict('cost among 100,000 / at the start', share / ratioOfRounds(many.app, many.insert), 1.3)
    report.atLeast('POST app, per second', median(few.app), 25 * 40)
  },
}
