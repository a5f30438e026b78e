/**
 * The API with only the features accounts, projects, audit log and notifications, on a database of its own, for tests
 * of these features.
 */
import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { auditFeature, auditWriter } from '../../src/control/audit/index.ts'
import {
  type Authenticator,
  authFeature,
  createAuthenticator,
  createIdempotencyStore,
  endRevokedStreams,
} from '../../src/control/auth/index.ts'
import { type ControlConfig, parseControlConfig } from '../../src/control/base/config.ts'
import type { Deps } from '../../src/control/base/deps.ts'
import type { Feature } from '../../src/control/http/operation.ts'
import { createRateLimiter } from '../../src/control/http/rate-limit.ts'
import { createServer } from '../../src/control/http/server.ts'
import { notificationsFeature, planLimitNotices } from '../../src/control/notifications/index.ts'
import { projectsFeature } from '../../src/control/projects/index.ts'
import type { Clock } from '../../src/lib/clock.ts'
import { createVault } from '../../src/lib/vault.ts'
import { type PostgresChoice, type PrivateServer, testDatabase } from './database.ts'
import { recordSecret, recordSecretsOf, testLog } from './log.ts'

export const testPassword = 'correct staple 7 horses'

/** Settings of the control plane. The rate limits are so high that only tests of limits reach them. */
const environment = {
  MOTE_SECRET_KEY: 'a-secret-key-of-the-tests-that-is-long-enough',
  MOTE_CAPTCHA: 'false',
  MOTE_RATE_TENANT: '1000000',
  MOTE_RATE_ANONYMOUS: '1000000',
  MOTE_RATE_LOGIN: '1000000',
  MOTE_RATE_CREATES: '1000000',
}

/** A wall clock that a test can advance. */
export interface TestClock extends Clock {
  advance(ms: number): void
}

export function testClock(): TestClock {
  let aheadMs = 0
  return {
    now: () => new Date(Date.now() + aheadMs),
    monotonicMs: () => performance.now() + aheadMs,
    advance: ms => {
      aheadMs += ms
    },
  }
}

export interface Reply {
  readonly status: number
  /** The response body, parsed as JSON. */
  readonly body: Record<string, any>
  readonly headers: Readonly<Record<string, unknown>>
}

export interface CallOptions {
  readonly token?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly ip?: string
}

export interface Person {
  readonly id: string
  readonly email: string
  readonly token: string
  readonly refreshToken: string
  readonly sessionId: string
}

export interface Identity extends AsyncDisposable {
  readonly deps: Deps
  readonly clock: TestClock
  readonly security: Authenticator
  readonly app: FastifyInstance
  /** URL of the test database. */
  readonly url: string
  call(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, options?: CallOptions): Promise<Reply>
  register(email?: string): Promise<{ readonly id: string; readonly email: string }>
  login(email: string, ip?: string): Promise<Person>
  /** Registers an account and signs in. */
  person(email?: string): Promise<Person>
}

export interface IdentityOptions {
  readonly postgres?: PostgresChoice | PrivateServer
  readonly env?: Readonly<Record<string, string>>
  readonly log?: Logger
  /** Features to use instead of accounts, projects, audit log and notifications. */
  readonly features?: (deps: Deps, security: Authenticator) => readonly Feature[]
}

const identityFeatures = (deps: Deps): readonly Feature[] => [
  authFeature(deps),
  projectsFeature(deps),
  auditFeature(deps),
  notificationsFeature(deps),
]

export async function startIdentity(options: IdentityOptions = {}): Promise<Identity> {
  const config: ControlConfig = parseControlConfig({ ...environment, ...options.env })
  const database = await testDatabase(options.postgres)
  const log = options.log ?? testLog()
  for (const secret of config.secrets) recordSecret('secret key', secret)
  const clock = testClock()
  const deps: Deps = { db: database.db, bus: createMemoryBus(), config, clock, vault: createVault(config.secrets), log }
  const security = createAuthenticator(deps)
  const { app, streams } = createServer({
    features: (options.features ?? identityFeatures)(deps, security),
    // The server offers only the operations of its features.
    operations: {},
    deps,
    security,
    audit: auditWriter,
    idempotency: createIdempotencyStore(deps),
    rateLimiter: createRateLimiter(clock),
    onRefusal: planLimitNotices(deps),
    checkAnswers: true,
  })
  await app.ready()
  const revocations = await endRevokedStreams(deps.db, streams)

  const call: Identity['call'] = async (method, path, { token, body, headers = {}, ip } = {}) => {
    const answer = await app.inject({
      method,
      url: path,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      ...(ip === undefined ? {} : { remoteAddress: ip }),
    })
    const parsed = answer.body === '' ? {} : JSON.parse(answer.body)
    recordSecretsOf({ request: body, answer: parsed })
    return { status: answer.statusCode, body: parsed, headers: answer.headers }
  }
  const register: Identity['register'] = async (email = `user-${randomBytes(6).toString('hex')}@example.com`) => {
    const body = { email, password: testPassword, captcha_id: '', captcha_answer: '' }
    const reply = await call('POST', '/v1/auth/register', { body })
    if (reply.status !== 200) throw new Error(`register answered ${reply.status}: ${JSON.stringify(reply.body)}`)
    return { id: String(reply.body['id']), email }
  }
  const login: Identity['login'] = async (email, ip) => {
    const body = { email, password: testPassword }
    const reply = await call('POST', '/v1/auth/login', { body, ...(ip === undefined ? {} : { ip }) })
    if (reply.status !== 200) throw new Error(`login answered ${reply.status}: ${JSON.stringify(reply.body)}`)
    const token = String(reply.body['token'])
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    return {
      id: reply.body['user'].id,
      email,
      token,
      refreshToken: String(reply.body['refresh_token']),
      sessionId: claims.sid,
    }
  }
  return {
    deps,
    clock,
    security,
    app,
    url: database.url,
    call,
    register,
    login,
    person: async email => login((await register(email)).email),
    async [Symbol.asyncDispose]() {
      await app.close()
      await revocations.stop()
      await security.stop()
      await deps.bus.close()
      await database.drop()
    },
  }
}

/** Accepts an invitation, with the link from the response to the request that created it. */
export function accept(api: Identity, invitation: Reply['body'], token: string): Promise<Reply> {
  const [id, secret] = new URL(String(invitation['link'])).hash.slice(1).split('.')
  return api.call('POST', `/v1/invitations/${id}/accept`, { token, body: { secret } })
}
