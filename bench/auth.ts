/**
 * What knowing the caller costs: CPU of this process per request over the same handler without credential, and the
 * audit log's first page at a million rows. Goals: JWT at most 60 us, PAT at most 1.2 times the JWT.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import { Type } from 'typebox'
import { createMemoryBus } from '../src/bus/memory.ts'
import { auditWriter } from '../src/control/audit/index.ts'
import { authFeature, createAuthenticator, createIdempotencyStore } from '../src/control/auth/index.ts'
import { parseControlConfig } from '../src/control/config.ts'
import { feature, operations } from '../src/control/http/operation.ts'
import { createRateLimiter } from '../src/control/http/rate-limit.ts'
import { createServer } from '../src/control/http/server.ts'
import { connectDb } from '../src/db/connect.ts'
import { startEmbeddedPostgres } from '../src/db/embedded.ts'
import { migrate } from '../src/db/migrate.ts'
import { systemClock } from '../src/lib/clock.ts'
import { createVault } from '../src/lib/vault.ts'

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

const dataDir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
const log = pino({ level: 'silent' })
await using cleanup = new AsyncDisposableStack()
cleanup.defer(() => rm(dataDir, { recursive: true, force: true }))
const postgres = await startEmbeddedPostgres({ dataDir: join(dataDir, 'data'), log, settings: { fsync: 'off' } })
cleanup.defer(() => postgres.stop())
await migrate({ url: postgres.url })
const db = await connectDb({ url: postgres.url, log })
cleanup.defer(() => db.close())

const config = parseControlConfig({
  MOTE_SECRET_KEY: 'a-secret-key-of-the-bench-that-is-long-enough',
  MOTE_CAPTCHA: 'false',
  MOTE_RATE_TENANT: '100000000',
  MOTE_RATE_ANONYMOUS: '100000000',
  MOTE_RATE_LOGIN: '100000000',
})
const deps = { db, bus: createMemoryBus(), config, clock: systemClock, vault: createVault(config.secrets), log }
const security = createAuthenticator(deps)
cleanup.defer(() => security.stop())
const { app } = createServer({
  features: [authFeature(deps), feature(benchOperations, { open: nothing, known: nothing, inProject: nothing })],
  deps,
  security,
  audit: auditWriter,
  idempotency: createIdempotencyStore(deps),
  rateLimiter: createRateLimiter(systemClock),
})
cleanup.defer(() => app.close())

const post = async (url: string, payload: object, token?: string) => {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const reply = await app.inject({ method: 'POST', url, payload, headers })
  if (reply.statusCode !== 200) throw new Error(`${url} answered ${reply.statusCode}: ${reply.body}`)
  return reply.json()
}
const person = { email: 'bench@example.com', password: 'a long sentence of the bench' }
await post('/v1/auth/register', { ...person, captcha_id: '', captcha_answer: '' })
const { token: jwt } = await post('/v1/auth/login', person)
const { token: pat } = await post('/v1/auth/tokens', { name: 'bench' }, jwt)

/** Microseconds of CPU of this process per request. */
async function cpuPerRequest(url: string, token?: string): Promise<number> {
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

const kinds = [
  ['no credential', '/bench/open', undefined],
  ['JWT', '/bench/known', jwt],
  ['PAT', '/bench/known', pat],
  ['JWT + project', '/bench/project', jwt],
  ['PAT + project', '/bench/project', pat],
] as const
const samples = new Map<string, number[]>(kinds.map(([name]) => [name, []]))
for (let round = -1; round < rounds; round++)
  for (const [name, url, token] of kinds) {
    const cpu = await cpuPerRequest(url, token)
    if (round >= 0) samples.get(name)?.push(cpu)
  }
const median = (name: string) => (samples.get(name) ?? []).toSorted((a, b) => a - b)[Math.floor(rounds / 2)] ?? NaN
const base = median('no credential')
for (const [name] of kinds) {
  const cost = median(name)
  console.log(`${name.padEnd(16)} ${cost.toFixed(1).padStart(7)} us   +${(cost - base).toFixed(1)}`)
}
const over = (name: string) => median(name) - base
console.log(
  `JWT check ${over('JWT').toFixed(1)} us (goal <= 60), PAT / JWT ${(over('PAT') / over('JWT')).toFixed(2)} (goal <= 1.2)`,
)

/** How long a light request takes while `stormers` people sign in without a pause. */
async function lightRequestMs(stormers: number): Promise<{ readonly p50: number; readonly p99: number }> {
  let storming = true
  const storm = Array.from({ length: stormers }, async () => {
    while (storming) await app.inject({ method: 'POST', url: '/v1/auth/login', payload: person })
  })
  const times: number[] = []
  for (let i = 0; i < 600; i++) {
    const began = performance.now()
    await app.inject({ url: '/bench/project', headers: { authorization: `Bearer ${jwt}` } })
    times.push(performance.now() - began)
    await pause(5)
  }
  storming = false
  await Promise.all(storm)
  times.sort((a, b) => a - b)
  return { p50: times[300] ?? NaN, p99: times[594] ?? NaN }
}
const idle = await lightRequestMs(0)
const stormy = await lightRequestMs(20)
for (const [name, { p50, p99 }] of Object.entries({ idle, 'login storm': stormy }))
  console.log(`${name.padEnd(16)} p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms`)
console.log(`login storm p99 / idle p99 ${(stormy.p99 / idle.p99).toFixed(2)} (goal <= 2)`)

const rows = Number(process.env['MOTE_BENCH_AUDIT_ROWS'] ?? 1_000_000)
const client = new pg.Client({ connectionString: postgres.url })
await client.connect()
cleanup.defer(() => client.end())
const me = await app.inject({ url: '/v1/auth/me', headers: { authorization: `Bearer ${jwt}` } })
await client.query(
  `INSERT INTO audit_log (id, account_id, project_id, action, resource_type, details, position, hash)
   SELECT gen_random_uuid(), a.id, a.default_project_id, 'app.' || (i % 20), CASE i % 1000 WHEN 0 THEN 'rare' ELSE 'app' END, '{"some": "details"}', i, ''
   FROM account a, generate_series(1, $1::bigint) AS i`,
  [rows],
)
await client.query(
  `INSERT INTO audit_count SELECT scope_id, action, resource_type, count(*) FROM audit_log WHERE position IS NOT NULL GROUP BY 1, 2, 3`,
)
await client.query('VACUUM ANALYZE audit_log')
const { auditPage, auditTotal } = await import('../src/control/audit/store.ts')
const projectId = (await client.query<{ id: string }>('SELECT default_project_id AS id FROM account')).rows[0]?.id ?? ''
for (const [name, action, resourceType] of [
  ['no filter', undefined, undefined],
  ['action', 'app.7', undefined],
  ['rare type', undefined, 'rare'],
  ['both', 'app.0', 'rare'],
  ['nothing found', 'no.such', undefined],
] as const) {
  const filter = { projectId, accountId: String(me.json().id), action, resourceType }
  const times: number[] = []
  for (let i = 0; i < 50; i++) {
    const began = performance.now()
    await Promise.all([auditPage(db, filter, 50, 0), auditTotal(db, filter)])
    times.push(performance.now() - began)
  }
  times.sort((a, b) => a - b)
  console.log(
    `audit, ${rows} rows, ${name.padEnd(14)} p50 ${times[25]?.toFixed(2)} ms  p98 ${times[48]?.toFixed(2)} ms`,
  )
}
