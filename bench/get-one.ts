/** `GET` of one app and of one deployment, beside bare Node with the same bytes; with a few and with 100,000 other apps. */
import { byName } from '../src/control/apps/store.ts'
import { type Benchmark, median } from './benchmark.ts'
import { answerOf, drive, startFloor } from './http-load.ts'
import { queryOf, startLeast, whoAsks } from './least.ts'
import { startPlane } from './plane.ts'
import { seedApps, seedServing, seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const load = { requests: 400, inFlight: 1 }

export const getOne: Benchmark = {
  name: 'get-one',
  goal: 'one app in 0.4 ms (median), and the same among 100,000 apps',
  covers: ['B2'],
  how: 'One request after the other on one kept connection, in turns with a Node server that writes the same bytes, with the bare SELECT by primary key through node-pg, and with the least that can answer: bare Node that asks the two statements of the product by node-pg and does nothing else. The control plane is a process of its own on a durable PostgreSQL.',
  reading:
    'Two statements (who asks, the row) and one answer are six hand-overs between three processes, and on this machine each of them costs what a process costs to wake. The least that can answer shows how much of the time that is. Not asking who asks would save two of them, and a revoked credential would go on for a while: it does not (docs/decisions/0057-fewer-round-trips.md). The growth is that of the share of bare Node, which answers in 0.05 to 0.2 ms and changes more than the product between the two halves of a run: the two medians above are what to look at.',
  async run(report) {
    await using plane = await startPlane()
    await seedApps(plane.sql, plane.projectId, 20, 'mine')
    await seedServing(plane.sql, 'mine', 4)
    const { rows } = await plane.sql.query<{ id: string; job: string }>(
      `SELECT a.id, d.job_id AS job FROM app a JOIN deployment d ON d.app_id = a.id WHERE name = 'mine-7'`,
    )
    const [mine] = rows
    const app = { path: '/v1/apps/mine-7', token: plane.jwt }
    const deployment = { path: `/v1/apps/mine-7/deployments/${mine?.job}`, token: plane.jwt }
    await using floor = await startFloor(await answerOf(plane.url, app))
    const row = await queryOf(db => byName(db, plane.projectId, 'mine-7'))
    await using least = await startLeast(plane, [await whoAsks(plane.jwt), row])
    const ask = async (origin: string, what: typeof app) => median((await drive(origin, what, load)).ms)
    const select = async () => {
      const times: number[] = []
      for (let n = 0; n < load.requests; n++) {
        const began = performance.now()
        await plane.sql.query({ name: 'bench.one', text: 'SELECT * FROM app WHERE id = $1', values: [mine?.id] })
        times.push(performance.now() - began)
      }
      return median(times)
    }
    const all = () =>
      inTurns(rounds, {
        app: () => ask(plane.url, app),
        deployment: () => ask(plane.url, deployment),
        floor: () => ask(floor.url, app),
        least: () => ask(least.url, app),
        select,
      })
    const few = await all()
    report.samples('GET app', 'ms', few.app)
    report.samples('GET deployment', 'ms', few.deployment)
    report.samples('bare Node, same bytes', 'ms', few.floor)
    report.samples('SELECT by key', 'ms', few.select)
    report.samples('the least: both statements by bare Node', 'ms', few.least)
    await seedTenants(plane.sql, 10_000, 10, 'other')
    const many = await all()
    report.samples('GET app, of 100,000', 'ms', many.app)
    report.samples('GET deployment, of 100,000', 'ms', many.deployment)
    report.verdict('GET app, ms', median(few.app), 0.4)
    report.verdict(
      'GET app / (bare Node + SELECT)',
      ratioOfRounds(
        few.app,
        few.floor.map((ms, n) => ms + (few.select[n] ?? 0)),
      ),
      2.5,
    )
    report.note(`GET app / the least that can answer: ${ratioOfRounds(few.app, few.least).toFixed(2)}`)
    const relative = (found: typeof few) => ratioOfRounds(found.app, found.floor)
    report.verdict('cost among 100,000 / among 20', relative(many) / relative(few), 1.1)
  },
}
