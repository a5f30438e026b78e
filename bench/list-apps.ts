/** `GET /v1/apps` with 100 rows, beside a bare Node server that answers the same bytes; with 10 and with 10,000 other tenants. */
import { type Benchmark, median } from './benchmark.ts'
import { answerOf, drive, startFloor } from './http-load.ts'
import { startPlane } from './plane.ts'
import { seedApps, seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const load = { requests: 400, inFlight: 8 }

export const listApps: Benchmark = {
  name: 'list-apps',
  goal: '100 apps at 35 % of what bare Node answers with the same bytes, 5 us of CPU a row, the same among 10,000 tenants',
  covers: ['B1'],
  how: 'The control plane is a process of its own on a durable PostgreSQL; 8 requests are in flight over kept connections, in turns with a Node server that writes the same bytes from memory. It checks a token, asks PostgreSQL and turns 100 rows into JSON; bare Node does nothing. CPU a row: the difference between 100 rows and one.',
  reading:
    "The client, the server and PostgreSQL share two cores, and bare Node has only the client to share with: on a busy machine a request that crosses three processes waits three times for its turn. Of the CPU of a row most is reading it from PostgreSQL's text and checking and writing the JSON.",
  async run(report) {
    await using plane = await startPlane()
    await seedApps(plane.sql, plane.projectId, 100, 'mine')
    await seedTenants(plane.sql, 10, 10, 'few')
    const ask = { path: '/v1/apps?limit=100', token: plane.jwt }
    await using floor = await startFloor(await answerOf(plane.url, ask))
    const cpuUs = async (path: string) => {
      const before = plane.cpuMs()
      await drive(plane.url, { ...ask, path }, load)
      return ((plane.cpuMs() - before) * 1000) / load.requests
    }
    const compare = () =>
      inTurns(rounds, {
        product: async () => (await drive(plane.url, ask, load)).perSecond,
        floor: async () => (await drive(floor.url, ask, load)).perSecond,
      })
    const rates = await compare()
    report.samples('GET /v1/apps, 100 rows', '/s', rates.product)
    report.samples('bare Node, same bytes', '/s', rates.floor)
    const cpu = await inTurns(rounds, { many: () => cpuUs(ask.path), one: () => cpuUs('/v1/apps?limit=1') })
    report.samples('CPU, 100 rows', 'us', cpu.many)
    report.samples('CPU, 1 row', 'us', cpu.one)
    await seedTenants(plane.sql, 9_990, 10, 'many')
    const among = await compare()
    report.samples('GET, among 10,000 tenants', '/s', among.product)
    const few = ratioOfRounds(rates.product, rates.floor)
    const many = ratioOfRounds(among.product, among.floor)
    report.atLeast('share of bare Node', few, 0.35)
    report.verdict('CPU of a row, us', (median(cpu.many) - median(cpu.one)) / 99, 5)
    report.verdict('cost among 10,000 tenants / among 10', few / many, 1.2)
    report.growth({
      what: 'share of bare Node, 1/1000',
      unit: '/s',
      along: 'tenants',
      points: [
        { at: 10, value: few * 1000 },
        { at: 10_000, value: many * 1000 },
      ],
    })
  },
}
