/** An HTTP server with a small invented API and in-memory stores, for tests of the API framework itself. */
import { type Static, Type } from 'typebox'
import pino from 'pino'
import { systemClock } from '../../src/lib/clock.ts'
import { notFound, unauthenticated } from '../../src/control/http/errors.ts'
import { apiDocsFeature } from '../../src/control/api-docs/docs.ts'
import {
  type Caller,
  type Feature,
  feature,
  type Handler,
  type Handlers,
  type Operation,
  operations,
  type ProjectAccess,
} from '../../src/control/http/operation.ts'
import type { AuditEntry, ServerOptions, StoredAnswer } from '../../src/control/http/ports.ts'
import { createRateLimiter } from '../../src/control/http/rate-limit.ts'
import { createServer } from '../../src/control/http/server.ts'
import {
  freeForm,
  labelName,
  list,
  maybe,
  nullable,
  resource,
  text,
  uint32,
  uuid,
} from '../../src/control/http/types.ts'

export const Thing = resource('Thing', { id: uuid(), name: text(), size: uint32(), note: maybe(text()) })
export type Thing = Static<typeof Thing>

const shared = { tag: 'Things', auth: 'bearer', project: 'selected' } as const
const params = Type.Object({ thing_name: text() })

export const thingOperations = operations({
  listThings: {
    ...shared,
    method: 'GET',
    path: '/v1/things',
    summary: 'Things',
    scope: 'read',
    query: Type.Object({ limit: Type.Optional(uint32({ default: 50 })), big: Type.Optional(Type.Boolean()) }),
    answer: list(Thing),
  },
  createThing: {
    ...shared,
    method: 'POST',
    path: '/v1/things',
    summary: 'Makes a thing',
    scope: 'write',
    throttle: 'create',
    body: resource('CreateThing', {
      name: labelName(),
      size: maybe(uint32({ enum: [1, 2, 4] })),
      color: Type.Optional(text({ default: 'red' })),
    }),
    answer: Thing,
  },
  getThing: {
    ...shared,
    method: 'GET',
    path: '/v1/things/{thing_name}',
    summary: 'One',
    scope: 'read',
    params,
    setsCookie: true,
    answer: Thing,
  },
  deleteThing: {
    ...shared,
    method: 'DELETE',
    path: '/v1/things/{thing_name}',
    summary: 'Gone',
    scope: 'write',
    params,
    answer: Type.Null(),
  },
  pokeThing: {
    ...shared,
    method: 'POST',
    path: '/v1/things/{thing_name}/poke',
    summary: 'Pokes',
    scope: 'deploy',
    params,
    body: freeForm(),
    bodyRequired: true,
    answer: 'free',
  },
  getSecretThing: {
    ...shared,
    method: 'GET',
    path: '/v1/things/{thing_name}/secret',
    summary: 'Secret',
    scope: 'read',
    params,
    answer: Thing,
    secretAnswer: true,
  },
  forgetAudit: { ...shared, method: 'POST', path: '/v1/forget', summary: 'No note', scope: 'write', answer: 'free' },
  breakThing: { ...shared, method: 'GET', path: '/v1/break', summary: 'Throws', scope: 'read', answer: 'free' },
  operate: {
    ...shared,
    method: 'GET',
    path: '/v1/operate',
    summary: 'Admins',
    scope: 'read',
    project: 'none',
    adminOnly: true,
    answer: 'free',
  },
  renameProject: {
    ...shared,
    method: 'PATCH',
    path: '/v1/places/{tenant_slug}',
    summary: 'By path',
    scope: 'admin',
    project: 'path',
    params: Type.Object({ tenant_slug: text() }),
    body: resource('Rename', { name: text() }),
    answer: 'free',
  },
  signIn: {
    ...shared,
    method: 'POST',
    path: '/v1/sign-in',
    summary: 'Open',
    auth: 'none',
    project: 'none',
    scope: 'write',
    throttle: 'login',
    body: resource('SignIn', { email: text(), password: text() }),
    answer: 'free',
  },
  hook: {
    ...shared,
    method: 'POST',
    path: '/v1/hooks/{name}',
    summary: 'Raw',
    auth: 'none',
    project: 'none',
    scope: 'write',
    rawBody: true,
    maxBytes: 2 << 20,
    params: Type.Object({ name: text() }),
    answer: 'free',
  },
  live: {
    ...shared,
    method: 'GET',
    path: '/v1/alive',
    summary: 'Text',
    auth: 'none',
    project: 'none',
    scope: 'read',
    throttle: 'unlimited',
    answer: 'text',
  },
  streamThings: {
    ...shared,
    method: 'GET',
    path: '/v1/things/{thing_name}/stream',
    summary: 'Events',
    scope: 'read',
    params,
    answer: 'stream',
    events: { snapshot: resource('ThingSnapshot', { after: nullable(text()) }), log: text() },
  },
})

type Table = typeof thingOperations

export const thing = (name: string): Thing => ({ id: '00000000-0000-7000-8000-000000000001', name, size: 1 })

const defaultHandlers: Handlers<Table> = {
  listThings: { read: async ({ query }) => Array.from({ length: query.limit ?? 0 }, (_, i) => thing(`t${i}`)) },
  createThing: {
    write: async call => async () => {
      call.audit({ action: 'thing.created', resourceType: 'thing' })
      // `password` is not in the schema, so the framework must remove it from the response.
      return { ...thing(call.body.name), note: call.body.color ?? null, password: 'never shown' }
    },
  },
  getThing: {
    read: async ({ params: { thing_name } }) => {
      if (thing_name === 'none') throw notFound()
      return thing(thing_name)
    },
  },
  deleteThing: {
    write: async call => async () => {
      call.audit({ action: 'thing.deleted', resourceType: 'thing' })
      return null
    },
  },
  pokeThing: {
    write: async call => async () => {
      call.audit({ action: 'thing.poked', resourceType: 'thing' })
      return { body: call.body }
    },
  },
  getSecretThing: { read: async call => thing(call.params.thing_name) },
  forgetAudit: { write: async () => async () => ({}) },
  breakThing: {
    read: async () => {
      throw new Error('secret detail', { cause: new Error('deeper') })
    },
  },
  operate: { read: async () => ({ ok: true }) },
  renameProject: {
    write: async call => async () => {
      call.audit({ action: 'project.renamed', resourceType: 'project' })
      return { slug: call.project.slug }
    },
  },
  signIn: { read: async () => ({ ok: true }) },
  hook: { read: async call => ({ bytes: call.body.length, name: call.params.name }) },
  live: { read: async () => 'ok' },
  streamThings: {
    stream: async (call, stream) => {
      if (call.params.thing_name === 'none') throw notFound()
      stream.send({ event: 'snapshot', id: '1', data: { after: stream.lastEventId ?? null } })
      await new Promise<void>(resolve => stream.signal.addEventListener('abort', () => resolve()))
    },
  },
}

/**
 * Returns an Authorization header with a token of the fixture, `<user>:<scope>`. The user owns a project with the same
 * id.
 */
export const bearer = (user: string, scope = 'admin') => ({ authorization: `Bearer ${user}:${scope}` })

function callerOf(credential: string): Caller {
  const found = /^(\w+):(read|deploy|write|admin)$/.exec(credential)
  if (!found?.[1]) throw unauthenticated()
  const scope = (['read', 'deploy', 'write', 'admin'] as const).find(name => name === found[2]) ?? 'read'
  return {
    userId: found[1],
    email: `${found[1]}@example.com`,
    role: found[1] === 'root' ? 'Admin' : 'User',
    via: { kind: 'session', sessionId: `session-${found[1]}` },
    scopes: new Set([scope]),
    boundProjectId: null,
    expiresAt: null,
  }
}

export const security: ServerOptions['security'] = {
  authenticate: async credential => callerOf(credential),
  async authenticateInProject(credential, selector) {
    const caller = callerOf(credential)
    const slug = selector ?? caller.userId
    if (slug !== caller.userId && slug !== 'shared') return { caller, project: undefined }
    const memberRole = slug === 'shared' ? 'viewer' : 'owner'
    return { caller, project: { id: slug, slug, name: slug, memberRole } satisfies ProjectAccess }
  },
}

export interface FixtureOptions extends Partial<Omit<ServerOptions, 'deps' | 'features'>> {
  readonly handlers?: Handlers<Table>
  readonly config?: Partial<ServerOptions['deps']['config']>
  readonly features?: readonly Feature[]
}

/**
 * Creates the server. @returns it, with its audit entries, its stored responses for idempotency keys, and its log lines
 */
export function createFixture(options: FixtureOptions = {}) {
  const audited: AuditEntry[] = []
  const answers = new Map<string, StoredAnswer>()
  const lines: string[] = []
  const { handlers, config, features, ...rest } = options
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
  const server = createServer({
    features: features ?? [feature(thingOperations, { ...defaultHandlers, ...handlers })],
    operations: thingOperations,
    security,
    audit: { write: async (_tx, entries) => void audited.push(...entries) },
    idempotency: {
      claim: async (_tx, { userId, key }) => answers.get(`${userId} ${key}`),
      complete: async (_tx, { userId, key, fingerprint }, status, body) =>
        void answers.set(`${userId} ${key}`, { fingerprint, status, body }),
    },
    rateLimiter: createRateLimiter(systemClock),
    checkAnswers: true,
    deps: {
      log,
      clock: systemClock,
      db: noDatabase,
      config: {
        trustedProxies: [],
        corsOrigins: ['https://console.example.com'],
        rateLimits: {
          tenantPerMinute: 10_000,
          anonymousPerMinute: 10_000,
          loginPerMinute: 10,
          createsPerSecond: 1000,
          refusalDelayMs: 0,
        },
        streamsPerUser: 3,
        ...config,
      },
    },
    ...rest,
  })
  return { ...server, audited, answers, lines }
}

const never = async (): Promise<never> => {
  throw new Error('BUG: the framework queried the database')
}
const sql = { rows: never, one: never, maybe: never, run: never }
const noDatabase: ServerOptions['deps']['db'] = {
  ...sql,
  // The cast adds the brand of a transaction, which exists for the compiler only.
  tx: work => work(sql as unknown as Parameters<typeof work>[0]),
  listen: never,
  withLock: never,
  withLockedSession: never,
  whileAnswering: never,
  close: async () => {},
}

/** Returns a feature whose handlers throw, for tests that only read the OpenAPI document. */
export function neverCalled(operations: Readonly<Record<string, Operation>>): Feature {
  const never = (): never => {
    throw new Error('BUG: this test has no handlers')
  }
  const handlerOf = ({ answer, method, auth, unaudited }: Operation): Handler<never> => {
    if (answer === 'stream') return { stream: never }
    return method === 'GET' || auth === 'none' || unaudited ? { read: never } : { write: never }
  }
  const stubs = Object.fromEntries(Object.entries(operations).map(([id, one]) => [id, handlerOf(one)]))
  const docs = Object.entries(apiDocsFeature(operations).handlers).filter(([id]) => id in operations)
  return { operations, handlers: { ...stubs, ...Object.fromEntries(docs) } }
}
