/** `GET /v1/apps` with 100 rows, beside a bare Node server that answers the same bytes; with 10 and with 10,000 other tenants. */
import { list } from '../src/control/apps/store.ts'
import { type Benchmark, median } from './benchmark.ts'
import { answerOf, drive, startFloor } from './http-load.ts'
import { queryOf, startLeast, whoAsks } from './least.ts'
import { startPlane } from './plane.ts'
import { seedApps, seedTenants } from './seed.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const load = { requests: 400, inFlight: 8 }

export const listApps: Benchmark = {
  name: 'list-apps',
  goal: '100 apps at 35 % of what bare Node answers with the same bytes, 5 us of CPU a row, the same among 10,000 tenants',
  covers: ['B1'],
  how: 'The control plane is a process of its own on a durable PostgreSQL; 8 requests are in flight over kept connections, in turns with a Node server that writes the same bytes from memory. It checks a token, asks PostgreSQL and answers with 100 rows; bare Node does nothing. The least that can answer is bare Node that asks the two statements of the product by node-pg and does nothing else. CPU a row: the difference between 100 rows and one.',
  reading:
    'The client, the server and PostgreSQL share two cores, and bare Node has only the client to share with. PostgreSQL writes the page as JSON in the form of the API (reading 100 rows of 21 columns and writing them again cost twice as much), so what is left is two statements and the bytes: the least that can answer shows how far from bare Node that is by itself.',
  async run(report) {
    await using plane = await startPlane()
    await seedApps(plane.sql, plane.projectId, 100, 'mine')
    await seedTenants(plane.sql, 10, 10, 'few')
    const ask = { path: '/v1/apps?limit=100', token: plane.jwt }
    await using floor = await startFloor(await answerOf(plane.url, ask))
    const page = await queryOf(db => list(db, plane.projectId, 100, 0))
    await using least = await startLeast(plane, [await whoAsks(plane.jwt), page])
    const cpuUs = async (path: string) => {
      const before = plane.cpuMs()
      await drive(plane.url, { ...ask, path }, load)
      return ((plane.cpuMs() - before) * 1000) / load.requests
    }
    const compare = () =>
      inTurns(rounds, {
        product: async () => (await drive(plane.url, ask, load)).perSecond,
        floor: async () => (await drive(floor.url, ask, load)).perSecond,
        least: async () => (await drive(least.url, ask, load)).perSecond,
      })
    const rates = await compare()
    report.samples('GET /v1/apps, 100 rows', '/s', rates.product)
    report.samples('bare Node, same bytes', '/s', rates.floor)
    report.samples('the least: both statements by bare Node', '/s', rates.least)
    report.note(`share of the least that can answer: ${ratioOfRounds(rates.product, rates.least).toFixed(2)}`)
    report.note(`share of bare Node that the least has: ${ratioOfRounds(rates.least, rates.floor).toFixed(2)}`)
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
