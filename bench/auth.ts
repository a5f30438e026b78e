/**
 * Measures the cost of authentication: the CPU time of this process per request, compared with that of the same
 * handler without a credential, with 1,000 to 1,000,000 tokens in the database.
 */
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { feature, operations } from '../src/control/http/operation.ts'
import pg from 'pg'
import { type BenchApi, startBenchApi } from './api.ts'
import { type Benchmark, median, type Report } from './benchmark.ts'
import { growthOf, type Sized } from './planes.ts'
import { inTurns } from './turns.ts'

const rounds = 7
const requests = 3_000
const inFlight = 32
/** Numbers of access tokens of other accounts in the database. */
const tokens = [1000, 100_000, 1_000_000] as const

const answer = Type.Object({ ok: Type.Boolean() })
const shared = { method: 'GET', tag: 'Bench', summary: 'Nothing', scope: 'read', answer, addition: true } as const
const benchOperations = operations({
  open: { ...shared, path: '/bench/open', auth: 'none', project: 'none', throttle: 'unlimited' },
  known: { ...shared, path: '/bench/known', auth: 'bearer', project: 'none' },
  inProject: { ...shared, path: '/bench/project', auth: 'bearer', project: 'selected' },
})
const nothing = { read: async () => ({ ok: true }) }
const benchFeature = feature(benchOperations, { open: nothing, known: nothing, inProject: nothing })

interface Cost {
  /** CPU time of this process per request, in microseconds. */
  readonly cpuUs: number
  /** Elapsed time per request, in microseconds. */
  readonly us: number
}

async function costOf(app: FastifyInstance, url: string, token?: string): Promise<Cost> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  let left = requests
  const before = process.cpuUsage()
  const began = performance.now()
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left-- > 0) {
        const { statusCode } = await app.inject({ url, headers })
        if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`)
      }
    }),
  )
  const { user, system } = process.cpuUsage(before)
  return { cpuUs: (user + system) / requests, us: ((performance.now() - began) * 1000) / requests }
}

export const auth: Benchmark = {
  name: 'auth',
  goal: 'a JWT costs at most 60 us of CPU, an access token at most 1.2 times that, independent of their number up to a million',
  covers: ['B13'],
  how: 'Requests go directly into the server, without sockets, alternating between handlers that do nothing: one without authentication, one that needs a credential, and one that also needs a project. Measures the CPU of the process per request, without PostgreSQL. To measure the growth, three databases with 1,000, 100,000 and 1,000,000 access tokens alternate; this part measures time, including PostgreSQL.',
  reading:
    'From the second use on, a plain hash of the token replaces the signature check of a JWT and the keyed hash of an access token (docs/decisions/0073-pipelined-reads-and-writes.md). The database is queried each time, and the remaining cost of both is that one statement by node-pg.',
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const apis: Sized<BenchApi>[] = []
    for (const at of tokens) {
      const plane = cleanup.use(await startBenchApi([benchFeature]))
      await seedTokens(plane, at)
      apis.push({ at, plane })
    }
    const series = { what: 'request with a PAT', unit: 'us', along: 'tokens of others', law: 'flat' } as const
    const withPat = async ({ app, pat }: BenchApi) => (await costOf(app, '/bench/known', pat)).us
    report.verdict(
      'time of a request with 1,000,000 access tokens in the database / with 1,000',
      await growthOf(report, series, rounds, apis, withPat),
      1.2,
    )
    const [few] = apis
    if (few) await cpuOfEach(report, few.plane)
  },
}

async function cpuOfEach(report: Report, { app, jwt, pat }: BenchApi): Promise<void> {
  const cpu = async (url: string, token?: string) => (await costOf(app, url, token)).cpuUs
  const found = await inTurns(rounds, {
    open: () => cpu('/bench/open'),
    jwt: () => cpu('/bench/known', jwt),
    pat: () => cpu('/bench/known', pat),
    jwtInProject: () => cpu('/bench/project', jwt),
    patInProject: () => cpu('/bench/project', pat),
  })
  report.samples('no credential', 'us', found.open)
  report.samples('JWT', 'us', found.jwt)
  report.samples('PAT', 'us', found.pat)
  report.samples('JWT + project', 'us', found.jwtInProject)
  report.samples('PAT + project', 'us', found.patInProject)
  const check = (values: readonly number[]) => median(values) - median(found.open)
  report.verdict('CPU to check a JWT, us', check(found.jwt), 60)
  report.verdict('CPU to check an access token / CPU to check a JWT', check(found.pat) / check(found.jwt), 1.2)
}

async function seedTokens({ databaseUrl }: BenchApi, count: number): Promise<void> {
  const sql = new pg.Client({ connectionString: databaseUrl })
  await sql.connect()
  try {
    // Disable foreign key checks, which PostgreSQL would make for each row.
    await sql.query('SET session_replication_role = replica')
    await sql.query(
      `INSERT INTO pat (account_id, hash, id, last_four, name, scopes)
       SELECT a.id, sha256(n::text::bytea), gen_random_uuid(), 'abcd', 'of-others-' || n, '{read}'
       FROM account a, generate_series(1, $1::int) n`,
      [count],
    )
    await sql.query('VACUUM ANALYZE pat')
    // Make a checkpoint now. Otherwise, PostgreSQL would write a million rows to disk during the first rounds.
    await sql.query('CHECKPOINT')
  } finally {
    await sql.end()
  }
}
