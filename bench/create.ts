/** `POST` of an app and of a rule, durable, beside one durable INSERT; at an empty and at a full table. */
import { type Benchmark, median } from './benchmark.ts'
import { drive } from './http-load.ts'
import { post, startPlane } from './plane.ts'
import { seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const insertApp = `INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
    max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret)
  VALUES (gen_random_uuid(), $1, $2, '', 8080, '/', 0, 1, 1, 1, false, 80, 80, $2 || '.bench', decode(repeat('ab', 40), 'hex'))`
const insertAudit = `INSERT INTO audit_log (id, account_id, project_id, action, resource_type, resource_id, details)
  SELECT gen_random_uuid(), id, $1, 'app.create', 'app', '', jsonb_build_object('name', $2::text) FROM account LIMIT 1`
const load = { requests: 150, inFlight: 8 }

export const create: Benchmark = {
  name: 'create',
  goal: 'creating an app or a rule at 30 % of the rate of one bare INSERT, and as fast among 100,000 apps',
  covers: ['B4'],
  how: 'Eight at a time. The product validates, checks who asks and the limits of his plan, locks his project, writes the row, the audit entry with its hash and the event of the outbox, and commits with fsync. The limit is one INSERT with fsync by eight connections of node-pg; beside it stands the bare transaction that any program needs which keeps a limit of a project: lock, count, insert, audit, commit, by the same eight connections, without HTTP and without asking who asks.',
  reading:
    'All creates are of one tenant, the slowest case: the row of the project is locked, for the limits of its plan, so its creates are one after the other while the bare INSERTs of eight connections share their commits. The bare transaction shows how much of the distance that is. The product locks for two round trips (count and insert at once, audit and COMMIT at once), the bare transaction for four.',
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
    /** What any program has to do that keeps a limit of the project: lock, count, insert, audit, commit. */
    const bareCreate = async () => {
      const client = await pool.connect()
      const name = `bare-${++n}`
      await client.query('BEGIN')
      await client.query({
        name: 'b.lock',
        text: 'SELECT plan FROM project WHERE id = $1 FOR NO KEY UPDATE',
        values: [plane.projectId],
      })
      await client.query({
        name: 'b.count',
        text: `SELECT count(*) FROM app WHERE project_id = $1 AND want = 'live'`,
        values: [plane.projectId],
      })
      await client.query({ name: 'b.app', text: insertApp, values: [plane.projectId, name] })
      await client.query({ name: 'b.audit', text: insertAudit, values: [plane.projectId, name] })
      await client.query('COMMIT')
      client.release()
    }
    const bare = async () => {
      const began = performance.now()
      let left = load.requests
      const worker = async () => {
        while (left-- > 0) await bareCreate()
      }
      await Promise.all(Array.from({ length: load.inFlight }, worker))
      return load.requests / ((performance.now() - began) / 1000)
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
    const few = await inTurns(rounds, { app, insert, bare })
    report.samples('POST app', '/s', few.app)
    report.samples('INSERT', '/s', few.insert)
    report.samples('the bare transaction', '/s', few.bare)
    report.note(`POST app / the bare transaction: ${ratioOfRounds(few.app, few.bare).toFixed(2)}`)
    report.note(`the bare transaction / INSERT: ${ratioOfRounds(few.bare, few.insert).toFixed(3)}`)
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
