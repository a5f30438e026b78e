/** Faulty requests that all operations of a kind reject alike. None of them changes resources of the test user Ann. */
import { bodyLimitOf } from '../../src/control/http/body-limit.ts'
import type { Operation } from '../../src/control/http/operation.ts'
import { takesKey } from '../../src/control/http/write.ts'
import { allOperations } from '../../src/control/operations.ts'
import { DbUnavailable } from '../../src/db/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import { tokenOf } from './account.ts'
import { bodies } from './bodies.ts'
import { documented } from './record.ts'
import { type FaultyServer, faultyServer } from './servers.ts'
import { type Asked, operationOf, type World } from './world.ts'

const operations = Object.entries(allOperations)
const documents = (id: string, status: number) => documented.get(id)?.includes(status) ?? false

/** Returns a body that the operation accepts. */
export const bodyOf = (id: string): Pick<Asked, 'body' | 'headers'> => {
  const { body, rawBody, upload } = operationOf(id)
  if (upload || rawBody) return { body: 'x', headers: { 'content-type': 'application/octet-stream' } }
  return body ? { body: bodies[id] ?? {} } : {}
}

export async function credentials({ ask, ann, bob }: World): Promise<void> {
  const narrow = await tokenOf(ann, ['read'])
  for (const [id, { auth, scope, adminOnly, project }] of operations) {
    if (auth !== 'bearer') continue
    const request = bodyOf(id)
    await ask(id, { ...request, token: undefined, expects: 401, how: 'no token' })
    if (scope !== 'read') await ask(id, { ...request, token: narrow, expects: 403, how: 'read-only token' })
    else if (adminOnly) await ask(id, { ...request, token: bob.token, expects: 403, how: 'not an administrator' })
    const foreign = 'project of another tenant'
    if (project === 'selected')
      await ask(id, {
        ...request,
        headers: { ...request.headers, 'x-project': bob.project },
        expects: 404,
        how: foreign,
      })
    if (project === 'path')
      await ask(id, { ...request, params: { tenant_slug: bob.project }, expects: 404, how: foreign })
  }
}

/** Returns path parameters that name no resource: random UUIDs for UUID parameters, otherwise an unused name. */
function unknownParams({ params }: Operation): Record<string, string> {
  const { properties = {} } = (params ?? {}) as { properties?: Record<string, { format?: string }> }
  return Object.fromEntries(
    Object.entries(properties).map(([name, { format }]) => [name, format === 'uuid' ? newId() : 'nothing-has-this']),
  )
}

export async function absences({ ask, record }: World): Promise<void> {
  for (const [id, operation] of operations)
    if (operation.params && documents(id, 404) && !record.has(id, 404))
      await ask(id, { ...bodyOf(id), params: unknownParams(operation), expects: 404, how: 'missing resource' })
}

const tooLarge = (operation: Operation) => String(bodyLimitOf(operation) + 1)

export async function bodiesRefused({ ask }: World): Promise<void> {
  for (const [id, operation] of operations) {
    const { body, rawBody, upload } = operation
    if (!body && !rawBody && !upload) continue
    const type = { 'content-type': upload ? 'application/gzip' : 'application/json' }
    const head = { ...type, 'content-length': tooLarge(operation) }
    await ask(id, { ...queryOf(id), headers: head, expects: 413, how: 'body above the size limit' })
    if (!body) continue
    await ask(id, {
      ...queryOf(id),
      body: '{}',
      headers: { 'content-type': 'text/plain' },
      expects: 415,
      how: 'body that is not JSON',
    })
    await ask(id, { ...queryOf(id), body: '{"a":', expects: 400, how: 'invalid JSON' })
  }
}

/** Returns the query parameters that an operation requires. */
const queryOf = (id: string): Pick<Asked, 'query'> =>
  id.includes('Sandbox') ? { query: { session: 'x'.repeat(43) } } : {}

export async function requestsRefused({ ask, record }: World): Promise<void> {
  for (const [id, operation] of operations) {
    if (record.has(id, 400)) continue
    if (operation.query) {
      const name = Object.keys(Reflect.get(operation.query, 'properties') ?? {})[0] ?? ''
      await ask(id, { ...bodyOf(id), query: { [name]: '\u0000' }, expects: 400, how: `NUL character in \`${name}\`` })
    }
    if (!record.has(id, 400)) await ask(id, { ...bodyOf(id), hosts: 2, expects: 400, how: 'two `Host` headers' })
  }
}

export async function staleVersions({ ask }: World): Promise<void> {
  for (const [id] of operations)
    if (documents(id, 412))
      await ask(id, { ...bodyOf(id), headers: { 'if-match': '"stale"' }, expects: 412, how: 'stale `If-Match`' })
}

/** Sends an Idempotency-Key that belongs to an earlier, different request. Every operation rejects it with 409. */
export async function reusedKeys({ ask, see }: World): Promise<void> {
  const [key, other] = [newId(), newId()]
  await see('markNotificationRead', 200, { headers: { 'idempotency-key': key } })
  await see('markAllNotificationsRead', 200, { headers: { 'idempotency-key': other } })
  for (const [id, operation] of operations) {
    if (!takesKey(operation)) continue
    const headers = { 'idempotency-key': id === 'markNotificationRead' ? other : key }
    await ask(id, { ...bodyOf(id), headers, expects: 409, how: '`Idempotency-Key` of another request' })
  }
}

export async function rateLimits(world: World): Promise<void> {
  const { ask, system, config } = world
  const once = { tenantPerMinute: 1, anonymousPerMinute: 1, loginPerMinute: 1, createsPerSecond: 1 }
  const rateLimits = { ...once, refusalDelayMs: 0 }
  await using stingy = await faultyServer(system, { config: { ...config, rateLimits, streamsPerUser: 1 } })
  const { port } = stingy
  // These requests exhaust the rate limits of this IP address, of Ann and of her project.
  for (const id of ['validateGenerations', 'getCaptcha', 'getMe', 'listApps', 'listMembers'])
    await ask(id, { ...bodyOf(id), port })
  for (const [id, { throttle }] of operations)
    if (throttle !== 'unlimited')
      await ask(id, { ...bodyOf(id), ...queryOf(id), port, expects: 429, how: 'rate limit exceeded' })
  const open = new AbortController()
  const stream = await fetch(`http://127.0.0.1:${port}/v1/health/stream`, { signal: open.signal })
  await ask('streamHealth', { port, expects: 429, how: 'too many open streams' })
  open.abort()
  await stream.body?.cancel().catch(() => undefined)
}

export async function faults(world: World): Promise<void> {
  const { system, config } = world
  const broken = new Error('injected fault')
  const away = new DbUnavailable('connect', 'the database is down')
  await using defect = await faultyServer(system, { config, database: broken })
  await using outage = await faultyServer(system, { config, database: away })
  await using bug = await faultyServer(system, {
    config,
    pages: [
      {
        serves: () => {
          throw broken
        },
        register: () => undefined,
      },
    ],
  })
  await using stopping = await faultyServer(system, { config })
  await stopping.stop()
  const all: readonly (readonly [FaultyServer, number, string])[] = [
    [defect, 500, 'unexpected database error'],
    [outage, 503, 'database unavailable'],
    [bug, 500, 'unexpected server error'],
    [stopping, 503, 'server shutting down'],
  ]
  for (const [server, status, how] of all)
    for (const [id] of operations)
      if (!world.record.has(id, status))
        await world.ask(id, { ...bodyOf(id), ...queryOf(id), port: server.port, expects: status, how })
}
