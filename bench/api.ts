/** Runs the API in this process, with a private PostgreSQL, one account and its credentials. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import type { Bus } from '../src/bus/bus.ts'
import { createMemoryBus } from '../src/bus/memory.ts'
import { features } from '../src/control/app.ts'
import { auditWriter } from '../src/control/audit/index.ts'
import { createAuthenticator, createIdempotencyStore } from '../src/control/auth/index.ts'
import { parseControlConfig } from '../src/control/base/config.ts'
import { createLiveStats } from '../src/control/hosts/index.ts'
import type { Feature } from '../src/control/http/operation.ts'
import { createRateLimiter } from '../src/control/http/rate-limit.ts'
import { createServer } from '../src/control/http/server.ts'
import { connectDb } from '../src/db/connect.ts'
import type { Db } from '../src/db/db.ts'
import { startEmbeddedPostgres } from '../src/db/embedded.ts'
import { migrate } from '../src/db/migrate.ts'
import { systemClock } from '../src/lib/clock.ts'
import { createVault } from '../src/lib/vault.ts'
import { startReaper } from '../test/support/reaper.ts'

export interface BenchApi extends AsyncDisposable {
  readonly app: FastifyInstance
  readonly db: Db
  readonly bus: Bus
  readonly databaseUrl: string
  readonly person: { readonly email: string; readonly password: string }
  readonly jwt: string
  readonly pat: string
  /** Sends a POST request. @throws Error if the status is not 200 */
  post(url: string, payload: object, token?: string): Promise<Record<string, unknown>>
}

const settings = {
  MOTE_SECRET_KEY: 'a-secret-key-of-the-bench-that-is-long-enough',
  MOTE_CAPTCHA: 'false',
  ...Object.fromEntries(['TENANT', 'ANONYMOUS', 'LOGIN', 'CREATES'].map(name => [`MOTE_RATE_${name}`, '100000000'])),
}

/** Starts a PostgreSQL with all migrations applied, which runs until `cleanup` ends. */
async function ownDatabase(cleanup: AsyncDisposableStack): Promise<string> {
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const dataDir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  reaper.removeAtEnd(dataDir)
  const log = pino({ level: 'silent' })
  const postgres = await startEmbeddedPostgres({ dataDir: join(dataDir, 'data'), log, settings: { fsync: 'off' } })
  const postgresPid = postgres.pid()
  reaper.killAtEnd(postgresPid)
  cleanup.defer(async () => {
    await postgres.stop()
    reaper.forget(postgresPid)
  })
  await migrate({ url: postgres.url })
  return postgres.url
}

/** Starts the API. @param migrated URL of a database with all migrations; default: a new database */
export async function startBenchApi(more: readonly Feature[] = [], migrated?: string): Promise<BenchApi> {
  await using cleanup = new AsyncDisposableStack()
  const log = pino({ level: 'silent' })
  const databaseUrl = migrated ?? (await ownDatabase(cleanup))
  const db = await connectDb({ url: databaseUrl, log })
  cleanup.defer(() => db.close())
  const config = parseControlConfig(settings)
  const clock = systemClock
  const bus = createMemoryBus()
  cleanup.defer(() => bus.close())
  const deps = {
    db,
    bus,
    config,
    clock,
    vault: createVault(config.secrets),
    log,
    live: createLiveStats(clock),
  }
  const security = createAuthenticator(deps)
  cleanup.defer(() => security.stop())
  const { app } = createServer({
    features: [...features(deps, security), ...more],
    operations: {},
    deps,
    security,
    audit: auditWriter,
    idempotency: createIdempotencyStore(deps),
    rateLimiter: createRateLimiter(clock),
  })
  cleanup.defer(() => app.close())
  const post: BenchApi['post'] = async (url, payload, token) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const reply = await app.inject({ method: 'POST', url, payload, headers })
    if (reply.statusCode !== 200) throw new Error(`${url} answered ${reply.statusCode}: ${reply.body}`)
    return reply.json()
  }
  const person = { email: 'bench@example.com', password: 'a long sentence of the bench' }
  await post('/v1/auth/register', { ...person, captcha_id: '', captcha_answer: '' })
  const jwt = String((await post('/v1/auth/login', person))['token'])
  const pat = String((await post('/v1/auth/tokens', { name: 'bench' }, jwt))['token'])
  const all = cleanup.move()
  return { app, db, bus, databaseUrl, person, jwt, pat, post, [Symbol.asyncDispose]: () => all.disposeAsync() }
}
