/**
 * Measures the rate of `GET /v1/apps` with 100 rows, compared with a bare Node server that answers with the same bytes
 * and with LXD's list of 100 containers; with 10 to 10,000 tenants in the database.
 */
import { list } from '../src/control/apps/store.ts'
import { newest } from '../src/control/http/paging.ts'
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

/**
 * Number of different pages to request: more than the control plane caches, so that it renders a page for every
 * request.
 */
const pages = 64

const askOf = ({ jwt }: Plane) => ({ path: '/v1/apps?limit=100', token: jwt })

export const listApps: Benchmark = {
  name: 'list-apps',
  goal: 'the list of 100 apps at 35 % of the rate at which bare Node writes the same bytes, with 5 us of CPU per row, ten times as often as LXD, and as fast among 10,000 tenants as among 10',
  covers: ['B1'],
  how: 'The control plane is a separate process on a durable PostgreSQL; 8 requests are open at a time over keep-alive connections, alternating with a Node server that writes the same bytes from memory. The control plane checks a token, queries PostgreSQL and returns 100 rows. A minimal server, bare Node that only runs the same two statements by node-pg, shows the lower limit. All of these request one unchanged page. A second run requests 64 pages in turn, more than the control plane caches, so each page is rendered; the CPU per row is the difference between 100 rows and one in that run. LXD lists 100 stopped containers on a directory (recursion=1) over its socket. To measure the growth, three control planes with 10, 1,000 and 10,000 tenants alternate.',
  reading:
    'The control plane caches a rendered page, and PostgreSQL confirms in the same round trip as the credential check that its rows have not changed (docs/decisions/0073-pipelined-reads-and-writes.md). The rates above are measured with such a cached page. When a page is rendered for each request, PostgreSQL takes half a millisecond to write 100 rows as JSON; until 2026-11-22 every page was rendered (0.25 of bare Node, 8.5 times LXD). The minimal server renders each page and runs both statements one after the other. The client, the server and PostgreSQL share two cores; bare Node shares them only with the client.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const planes = await planesOf(cleanup, tenants, async ({ sql, projectId }, at) => {
      await seedApps(sql, projectId, 100 + pages, 'mine')
      await seedTenants(sql, at, 10, 'other')
    })
    // Measure the growth before anything else, because repeated requests get faster for a while.
    const series = { what: 'GET, 8 in flight, for each', unit: 'ms', along: 'tenants', law: 'flat' } as const
    const growth = await growthOf(report, series, short.rounds, planes, one => msOfEach(one.url, askOf(one), short))
    report.verdict('time of GET /v1/apps among 10,000 tenants / among 10', growth, 1.2)
    const [{ plane }] = planes
    const ask = askOf(plane)
    const floor = cleanup.use(await startFloor(await answerOf(plane.url, ask)))
    const page = await queryOf(db =>
      list(db, plane.projectId, { around: ['http://', ''], limit: 100, offset: 0 }, newest(100).before, null),
    )
    const least = cleanup.use(await startLeast(plane, [await whoAsks(plane.jwt), page]))
    const lxd = await beside(report, cleanup, 'LXD', startLxd)
    await lxd?.create('c', 100, 4)
    const rate = async (origin: Origin, path = ask.path, requests = load.requests) =>
      (await drive(origin, { ...ask, path }, { ...load, requests })).perSecond
    const paths = (request: number) => `${ask.path}&offset=${request % pages}`
    const rates = await inTurns(
      rounds,
      {
        product: () => rate(plane.url),
        changed: async () => (await drive(plane.url, { ...ask, paths }, load)).perSecond,
        floor: () => rate(floor.url),
        least: () => rate(least.url),
        lxd: lxd && (() => rate(lxd, '/1.0/instances?recursion=1', load.requests / 10)),
      },
      warm,
    )
    report.samples('GET /v1/apps, 100 rows', '/s', rates.product)
    report.samples('pages that are written for each request', '/s', rates.changed)
    report.samples('bare Node, same bytes', '/s', rates.floor)
    report.samples('minimal server: the same two statements', '/s', rates.least)
    report.note(
      `rate of GET /v1/apps / rate of the minimal server: ${ratioOfRounds(rates.product, rates.least).toFixed(2)}`,
    )
    report.note(
      `rate of GET /v1/apps with pages that are rendered for each request: ${ratioOfRounds(rates.changed, rates.floor).toFixed(2)} of bare Node, ${ratioOfRounds(rates.changed, rates.least).toFixed(2)} of the minimal server`,
    )
    report.note(`rate of the minimal server / rate of bare Node: ${ratioOfRounds(rates.least, rates.floor).toFixed(2)}`)
    report.atLeast('rate of GET /v1/apps / rate of bare Node', ratioOfRounds(rates.product, rates.floor), 0.35)
    if (lxd) {
      report.samples('LXD, 100 containers', '/s', rates.lxd)
      report.atLeast(
        'rate of GET /v1/apps / rate of listing containers from LXD',
        ratioOfRounds(rates.product, rates.lxd),
        10,
      )
    }
    const cpuUs = async (limit: number) => {
      const before = plane.cpuMs()
      const written = (request: number) => `/v1/apps?limit=${limit}&offset=${request % pages}`
      await drive(plane.url, { ...ask, paths: written }, load)
      return ((plane.cpuMs() - before) * 1000) / load.requests
    }
    const cpu = await inTurns(rounds, { many: () => cpuUs(100), one: () => cpuUs(1) })
    report.samples('CPU, 100 rows that are written', 'us', cpu.many)
    report.samples('CPU, 1 row that is written', 'us', cpu.one)
    report.verdict('CPU per row of the list, us', (median(cpu.many) - median(cpu.one)) / 99, 5)
  },
}
