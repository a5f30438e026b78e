/**
 * Measures the response time of `GET` for one app and for one deployment, compared with bare Node that sends the same
 * bytes and with LXD, with 20 to 100,000 other apps in the database.
 */
import { byName } from '../src/control/apps/store.ts'
import { type Benchmark, median } from './benchmark.ts'
import { beside } from './beside.ts'
import { type Ask, answerOf, drive, type Origin, startFloor } from './http-load.ts'
import { queryOf, startLeast, whoAsks } from './least.ts'
import { startLxd } from './lxd.ts'
import type { Plane } from './plane.ts'
import { growthOf, planesOf } from './planes.ts'
import { seedApps, seedServing, seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds, warm } from './turns.ts'

const rounds = 7
const load = { requests: 400, inFlight: 1 }
/** The rounds are short, so that a disturbance affects only one of them and does not change the median. */
const short = { rounds: 40, requests: 50 }
const otherApps = [20, 10_000, 100_000] as const

const medianMs = async (origin: Origin, ask: Ask, { requests }: { readonly requests: number } = load) =>
  median((await drive(origin, ask, { requests, inFlight: 1 })).ms)

export const getOne: Benchmark = {
  name: 'get-one',
  goal: 'reading one app takes 0.4 ms (median), a fifth of the time of LXD, and as long among 100,000 apps as among 20',
  covers: ['B2'],
  how: 'A client sends one request after the other on one keep-alive connection, alternating with a Node server that writes the same bytes, the bare SELECT by primary key through node-pg, and a minimal server: bare Node that only runs the same two statements by node-pg. The control plane is a separate process on a durable PostgreSQL. LXD reads one of 100 containers over its socket. To measure the growth, three control planes with 20, 10,000 and 100,000 apps of other tenants alternate.',
  reading:
    'For a cached credential, the credential check and the query take one round trip, and the server answers after the check has succeeded (docs/decisions/0073-pipelined-reads-and-writes.md): four switches between three processes, each with the cost of waking a process. The minimal server runs the statements one after the other. Until 2026-11-22 Mote did too, and took 0.55 ms, 1.53 times the minimal server; now it takes 0.44 ms and 1.41 times. The rest is CPU time of the control plane: a third of it in the kernel, a ninth in garbage collection, and the remainder spread over the server, node-pg and node:http with no part above 4 %.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const planes = await planesOf(cleanup, otherApps, async ({ sql, projectId }, at) => {
      await seedApps(sql, projectId, 20, 'mine')
      await seedServing(sql, 'mine', 4)
      await seedTenants(sql, at / 10, 10, 'other')
    })
    // Measure the growth before anything else, because repeated requests get faster for a while.
    const series = { what: 'GET app', unit: 'ms', along: 'apps of others', law: 'flat' } as const
    const growth = await growthOf(report, series, short.rounds, planes, one =>
      medianMs(one.url, { path: '/v1/apps/mine-7', token: one.jwt }, short),
    )
    report.verdict('time of GET app among 100,000 apps / among 20', growth, 1.1)
    const [{ plane }] = planes
    const { id, job } = await mineOf(plane)
    const app = { path: '/v1/apps/mine-7', token: plane.jwt }
    const deployment = { path: `${app.path}/deployments/${job}`, token: plane.jwt }
    const floor = cleanup.use(await startFloor(await answerOf(plane.url, app)))
    const row = await queryOf(db => byName(db, plane.projectId, 'mine-7'))
    const least = cleanup.use(await startLeast(plane, [await whoAsks(plane.jwt), row]))
    const lxd = await beside(report, cleanup, 'LXD', startLxd)
    await lxd?.create('c', 100, 4)
    const select = async () => {
      const times: number[] = []
      for (let n = 0; n < load.requests; n++) {
        const began = performance.now()
        await plane.sql.query({ name: 'bench.one', text: 'SELECT * FROM app WHERE id = $1', values: [id] })
        times.push(performance.now() - began)
      }
      return median(times)
    }
    const found = await inTurns(
      rounds,
      {
        app: () => medianMs(plane.url, app),
        deployment: () => medianMs(plane.url, deployment),
        floor: () => medianMs(floor.url, app),
        least: () => medianMs(least.url, app),
        select,
        lxd: lxd && (() => medianMs(lxd, { path: '/1.0/instances/c-7' })),
      },
      warm,
    )
    const own = report.samples('GET app', 'ms', found.app)
    report.samples('GET deployment', 'ms', found.deployment)
    report.samples('bare Node, same bytes', 'ms', found.floor)
    report.samples('SELECT by key', 'ms', found.select)
    report.samples('minimal server: the same two statements', 'ms', found.least)
    report.verdict('time of GET app (median), ms', own.median, 0.4)
    const both = found.floor.map((ms, n) => ms + (found.select[n] ?? 0))
    report.verdict('time of GET app / time of bare Node plus a bare SELECT', ratioOfRounds(found.app, both), 2.5)
    report.note(`time of GET app / time of the minimal server: ${ratioOfRounds(found.app, found.least).toFixed(2)}`)
    if (lxd) {
      report.samples('LXD, one of 100', 'ms', found.lxd)
      report.atLeast('time of a read of a container from LXD / time of GET app', ratioOfRounds(found.lxd, found.app), 5)
    }
  },
}

async function mineOf({ sql }: Plane): Promise<{ readonly id: string; readonly job: string }> {
  const { rows } = await sql.query<{ id: string; job: string }>(
    `SELECT a.id, d.job_id AS job FROM app a JOIN deployment d ON d.app_id = a.id WHERE name = 'mine-7'`,
  )
  const [mine] = rows
  if (mine === undefined) throw new Error('BUG: the bench seeds mine-7')
  return mine
}
