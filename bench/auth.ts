/** What knowing the caller costs: CPU of this process per request over the same handler without a credential. */
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { feature, operations } from '../src/control/http/operation.ts'
import { startBenchApi } from './api.ts'
import { type Benchmark, summarise } from './benchmark.ts'

const rounds = 7
const requests = 3_000
const inFlight = 32

const answer = Type.Object({ ok: Type.Boolean() })
const shared = { method: 'GET', tag: 'Bench', summary: 'Nothing', scope: 'read', answer, addition: true } as const
const benchOperations = operations({
  open: { ...shared, path: '/bench/open', auth: 'none', project: 'none', throttle: 'unlimited' },
  known: { ...shared, path: '/bench/known', auth: 'bearer', project: 'none' },
  inProject: { ...shared, path: '/bench/project', auth: 'bearer', project: 'selected' },
})
const nothing = { read: async () => ({ ok: true }) }

/** Microseconds of CPU of this process per request. */
async function cpuPerRequest(app: FastifyInstance, url: string, token?: string): Promise<number> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  let left = requests
  const before = process.cpuUsage()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left-- > 0) {
        const { statusCode } = await app.inject({ url, headers })
        if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`)
      }
    }),
  )
  const { user, system } = process.cpuUsage(before)
  return (user + system) / requests
}

export const auth: Benchmark = {
  name: 'auth',
  goal: 'a JWT costs at most 60 us of CPU, an access token at most 1.2 times that',
  covers: ['B13'],
  how: 'Requests go straight into the server, without sockets, in turns over handlers that do nothing: one open, one that needs a credential, one that also needs a project. CPU of the process for each request, PostgreSQL not counted.',
  async run(report) {
    await using api = await startBenchApi([
      feature(benchOperations, { open: nothing, known: nothing, inProject: nothing }),
    ])
    const kinds = [
      ['no credential', '/bench/open', undefined],
      ['JWT', '/bench/known', api.jwt],
      ['PAT', '/bench/known', api.pat],
      ['JWT + project', '/bench/project', api.jwt],
      ['PAT + project', '/bench/project', api.pat],
    ] as const
    const samples = new Map<string, number[]>(kinds.map(([name]) => [name, []]))
    // The first round warms up. Kinds take turns, so that whatever else the machine does meets them all.
    for (let round = -1; round < rounds; round++)
      for (const [name, url, token] of kinds) {
        const cpu = await cpuPerRequest(api.app, url, token)
        if (round >= 0) samples.get(name)?.push(cpu)
      }
    for (const [name, values] of samples) report.samples(name, 'us', values)
    const median = (name: string) => summarise(samples.get(name) ?? []).median
    const over = (name: string) => median(name) - median('no credential')
    report.verdict('JWT check, us', over('JWT'), 60)
    report.verdict('PAT check / JWT check', over('PAT') / over('JWT'), 1.2)
  },
}
