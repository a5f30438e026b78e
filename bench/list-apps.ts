/** `GET /v1/apps` with 100 rows, beside a bare Node server that answers the same bytes, and LXD's list of 100; among 10 to 10,000 tenants. */
import { list } from '../src/control/apps/store.ts'
import { type Benchmark, median } from './benchmark.ts'
import { beside } from './beside.ts'
import { answerOf, drive, msOfEach, type Origin, startFloor } from './http-load.ts'
import { queryOf, startLeast, whoAsks } from './least.ts'
import { startLxd } from './lxd.ts'
import type { Plane } from './plane.ts'
import { growthOf, planesOf } from './planes.ts'
import { seedApps, seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds, warm } from './turns.ts'

const rounds = 7
const tenants = [10, 1000, 10_000] as const
const load = { requests: 400, inFlight: 8 }
const short = { rounds: 20, requests: 120, inFlight: 8 }

const askOf = ({ jwt }: Plane) => ({ path: '/v1/apps?limit=100', token: jwt })

export const listApps: Benchmark = {
  name: 'list-apps',
  goal: '100 apps at 35 % of what bare Node answers with the same bytes, 5 us of CPU a row, ten times as often as LXD, the same among 10,000 tenants',
  covers: ['B1'],
  how: 'The control plane is a process of its own on a durable PostgreSQL; 8 requests are in flight over kept connections, in turns with a Node server that writes the same bytes from memory. It checks a token, asks PostgreSQL and answers with 100 rows; bare Node does nothing. The least that can answer is bare Node that asks the two statements of the product by node-pg and does nothing else. CPU a row: the difference between 100 rows and one. LXD lists 100 containers that do not run, on a directory (recursion=1), over its own socket. For the growth, three control planes of 10, 1,000 and 10,000 tenants are asked in turns.',
  reading:
    'The client, the server and PostgreSQL share two cores, and bare Node has only the client to share with. PostgreSQL writes the page as JSON in the form of the API (reading 100 rows of 21 columns and writing them again cost twice as much), so what is left is two statements and the bytes: the least that can answer shows how far from bare Node that is by itself.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const planes = await planesOf(cleanup, tenants, async ({ sql, projectId }, at) => {
      await seedApps(sql, projectId, 100, 'mine')
      await seedTenants(sql, at, 10, 'other')
    })
    // First, because what is asked more often gets faster for a while.
    const series = { what: 'GET, 8 in flight, for each', unit: 'ms', along: 'tenants', law: 'flat' } as const
    const growth = await growthOf(report, series, short.rounds, planes, one => msOfEach(one.url, askOf(one), short))
    report.verdict('cost among 10,000 tenants / among 10', growth, 1.2)
    const [{ plane }] = planes
    const ask = askOf(plane)
    const floor = cleanup.use(await startFloor(await answerOf(plane.url, ask)))
    const page = await queryOf(db => list(db, plane.projectId, 100, 0))
    const least = cleanup.use(await startLeast(plane, [await whoAsks(plane.jwt), page]))
    const lxd = await beside(report, cleanup, 'LXD', startLxd)
    await lxd?.create('c', 100, 4)
    const rate = async (origin: Origin, path = ask.path, requests = load.requests) =>
      (await drive(origin, { ...ask, path }, { ...load, requests })).perSecond
    const rates = await inTurns(
      rounds,
      {
        product: () => rate(plane.url),
        floor: () => rate(floor.url),
        least: () => rate(least.url),
        lxd: lxd && (() => rate(lxd, '/1.0/instances?recursion=1', load.requests / 10)),
      },
      warm,
    )
    report.samples('GET /v1/apps, 100 rows', '/s', rates.product)
    report.samples('bare Node, same bytes', '/s', rates.floor)
    report.samples('the least: both statements by bare Node', '/s', rates.least)
    report.note(`share of the least that can answer: ${ratioOfRounds(rates.product, rates.least).toFixed(2)}`)
    report.note(`share of bare Node that the least has: ${ratioOfRounds(rates.least, rates.floor).toFixed(2)}`)
    report.atLeast('share of bare Node', ratioOfRounds(rates.product, rates.floor), 0.35)
    if (lxd) {
      report.samples('LXD, 100 containers', '/s', rates.lxd)
      report.atLeast('GET / LXD', ratioOfRounds(rates.product, rates.lxd), 10)
    }
    const cpuUs = async (path: string) => {
      const before = plane.cpuMs()
      await drive(plane.url, { ...ask, path }, load)
      return ((plane.cpuMs() - before) * 1000) / load.requests
    }
    const cpu = await inTurns(rounds, { many: () => cpuUs(ask.path), one: () => cpuUs('/v1/apps?limit=1') })
    report.samples('CPU, 100 rows', 'us', cpu.many)
    report.samples('CPU, 1 row', 'us', cpu.one)
    report.verdict('CPU of a row, us', (median(cpu.many) - median(cpu.one)) / 99, 5)
  },
}
