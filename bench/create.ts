/**
 * Measures the rate at which apps and security rules are created, compared with the rates of one durable INSERT and of
 * LXD, with 1,000 to 100,000 apps in the database.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Benchmark } from './benchmark.ts'
import { beside } from './beside.ts'
import { drive, msOfEach } from './http-load.ts'
import { startLxd } from './lxd.ts'
import { type Plane, post } from './plane.ts'
import { growthOf, planesOf } from './planes.ts'
import { seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds, scaled, warm } from './turns.ts'

const rounds = 7
const insertApp = `INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
    max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_webhook_secret)
  VALUES (gen_random_uuid(), $1, $2, '', 8080, '/', 0, 1, 1, 1, false, 80, 80, $2 || '.bench', decode(repeat('ab', 40), 'hex'))`
const insertAudit = `INSERT INTO audit_log (id, account_id, project_id, action, resource_type, resource_id, details)
  SELECT gen_random_uuid(), id, $1, 'app.create', 'app', '', jsonb_build_object('name', $2::text) FROM account LIMIT 1`
const load = { requests: 150, inFlight: 8 }
const short = { rounds: 15, requests: 60, inFlight: 8 }
const otherApps = [1000, 10_000, 100_000] as const

/** Returns the number of operations per second, with eight in progress at a time. */
async function rateOf(count: number, act: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  let left = count
  const worker = async () => {
    while (left-- > 0) await act()
  }
  await Promise.all(Array.from({ length: load.inFlight }, worker))
  return count / ((performance.now() - began) / 1000)
}

/**
 * Returns the operations to compare with: one INSERT, and the minimal transaction of any program that limits the
 * number of apps per project (lock, count, insert, audit, commit).
 */
async function bareOf(cleanup: AsyncDisposableStack, plane: Plane) {
  await plane.sql.query('CREATE TABLE bench_row (id bigserial PRIMARY KEY, name text, data jsonb)')
  const pool = new pg.Pool({ connectionString: plane.databaseUrl, max: load.inFlight })
  cleanup.defer(() => pool.end())
  const query = { name: 'bench.insert', text: 'INSERT INTO bench_row (name, data) VALUES ($1, $2)' }
  const values = [plane.projectId]
  let n = 0
  const create = async () => {
    const client = await pool.connect()
    const named = [plane.projectId, `bare-${++n}`]
    await client.query('BEGIN')
    await client.query({ name: 'b.lock', text: 'SELECT plan FROM project WHERE id = $1 FOR NO KEY UPDATE', values })
    const count = `SELECT count(*) FROM app WHERE project_id = $1 AND want = 'live'`
    await client.query({ name: 'b.count', text: count, values })
    await client.query({ name: 'b.app', text: insertApp, values: named })
    await client.query({ name: 'b.audit', text: insertAudit, values: named })
    await client.query('COMMIT')
    client.release()
  }
  const row = ['a name', '{"some": "details of the row"}']
  return {
    insert: () => rateOf(load.requests * 4, () => pool.query({ ...query, values: row })),
    bare: () => rateOf(load.requests, create),
  }
}

const appAsk = ({ jwt }: Plane) => ({
  path: '/v1/apps',
  method: 'POST' as const,
  token: jwt,
  body: () => ({ name: `app-${randomBytes(8).toString('hex')}`, git_url: '' }),
})

async function createRules(plane: Plane): Promise<number> {
  let port = 0
  const body = () => ({ protocol: 'tcp', port_start: ++port, port_end: 60_001, action: 'allow' })
  const path = '/v1/apps/ruled/security-groups'
  const ask = { path, method: 'POST', token: plane.jwt, body } as const
  const turn = await drive(plane.url, ask, { requests: 5, inFlight: 1 })
  await plane.sql.query('DELETE FROM security_rule')
  return turn.perSecond
}

export const create: Benchmark = {
  name: 'create',
  goal: 'creating an app at 30 % of the rate of one bare INSERT, 25 times as often as LXD creates a container, and as fast among 100,000 apps',
  covers: ['B4'],
  how: 'Eight clients create apps at the same time. The control plane validates, checks the credential and the limits of the plan, locks the project, writes the row, the audit entry with its hash and the event, and commits with fsync. The limit is one INSERT with fsync by eight connections of node-pg. For comparison: the bare transaction of any program that enforces a limit per project (lock, count, insert, audit, commit) by the same eight connections, without HTTP and authentication. LXD creates empty containers on a directory, eight at a time, until its operation completes. To measure the growth, three control planes with 1,000, 10,000 and 100,000 apps of other tenants alternate.',
  reading:
    'All creates belong to one tenant. Its plan has no limit on numbers, so they share the lock on the project and run in parallel (docs/decisions/0076-lock-order.md); the bare transaction enforces a limit, so its eight connections wait for each other. The remaining difference to the INSERT is work: authentication, an app with all its indexes, the audit entry, the event and HTTP, on two cores that the client and PostgreSQL share. The bare transaction shows the part without HTTP and authentication.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const planes = await planesOf(cleanup, otherApps, ({ sql }, at) => seedTenants(sql, at / 100, 100, 'other'))
    // Measure the growth first, because at this point the databases differ only in the number of seeded apps.
    const series = {
      what: 'POST app, 8 in flight, for each',
      unit: 'ms',
      along: 'apps of others',
      law: 'flat',
    } as const
    const growth = await growthOf(report, series, short.rounds, planes, one => msOfEach(one.url, appAsk(one), short))
    report.verdict('time to create an app among 100,000 apps / among 1,000', growth, 1.3)
    const [{ plane }] = planes
    await post(`${plane.url}/v1/apps`, { name: 'ruled', git_url: '' }, plane.jwt)
    const lxd = await beside(report, cleanup, 'LXD', startLxd)
    const containers = scaled(40)
    const ofLxd = async () => {
      const rate = (await lxd?.create('c', containers, load.inFlight)) ?? 0
      await lxd?.remove('c', containers)
      return rate
    }
    const app = async () => (await drive(plane.url, appAsk(plane), load)).perSecond
    const acts = { app, ...(await bareOf(cleanup, plane)), lxd: lxd && ofLxd }
    const found = await inTurns(rounds, acts, warm)
    report.samples('POST app', '/s', found.app)
    report.samples('INSERT', '/s', found.insert)
    report.samples('the bare transaction', '/s', found.bare)
    report.note(
      `rate of creating apps / rate of the bare transaction: ${ratioOfRounds(found.app, found.bare).toFixed(2)}`,
    )
    report.note(
      `rate of the bare transaction / rate of bare INSERTs: ${ratioOfRounds(found.bare, found.insert).toFixed(3)}`,
    )
    report.atLeast('rate of creating apps / rate of bare INSERTs', ratioOfRounds(found.app, found.insert), 0.3)
    if (lxd) {
      report.samples('LXD, empty container', '/s', found.lxd)
      report.atLeast(
        'rate of creating apps / rate at which LXD creates containers',
        ratioOfRounds(found.app, found.lxd),
        25,
      )
    }
    const { rule } = await inTurns(rounds, { rule: () => createRules(plane) })
    report.samples('POST rule, one after the other', '/s', rule)
  },
}
