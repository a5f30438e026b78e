/** Speculative reads: when they start, and when their responses are sent or discarded. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { beginReadOf } from './attempt.ts'
import { allOperations } from '../operations.ts'
import { notFound, unauthenticated } from './errors.ts'
import {
  bearer,
  createFixture,
  type FixtureOptions,
  neverCalled,
  security,
  thing,
  type thingOperations,
} from '../../../test/support/api-fixture.ts'
import type { Call } from './operation.ts'
import type { CallerInProject } from './ports.ts'
import { createRoute } from './route.ts'

type ThingCall = Call<typeof thingOperations.getThing>

const origin = { ip: '', userAgent: '', requestId: '' }
const whoIs = (credential: string, project?: string) => security.authenticateInProject(credential, project, origin)
const owner = await whoIs('ann:admin')

/** Creates a server that presumes `presumed` to be the caller. The test confirms the caller by resolving `check`. */
function presuming(read: (call: ThingCall) => Promise<unknown>, presumed = owner, options: FixtureOptions = {}) {
  const check = Promise.withResolvers<CallerInProject>()
  const handler = vi.fn(read)
  const fixture = createFixture({
    handlers: { getThing: { read: async call => ({ ...thing(''), ...Object(await handler(call)) }) } },
    security: {
      ...security,
      authenticateInProject(_credential, _selector, _origin, presume) {
        presume?.(presumed)
        return check.promise
      },
    },
    ...options,
  })
  const ask = (method: 'GET' | 'POST' | 'DELETE' = 'GET', url = '/v1/things/a') =>
    fixture.app.inject({ method, url, headers: bearer('ann') })
  return { ...fixture, check, handler, ask }
}

const found = async ({ params, caller, project }: ThingCall) => ({
  name: `${params.thing_name} of ${caller.userId} as ${project.memberRole}`,
})

async function mutex(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await nextTurn()
}

describe('a speculative read for the last known owner of the credential', () => {
  it('runs before authentication is confirmed, and its response is sent only afterwards', async () => {
    const { app, check, handler, ask } = presuming(found)
    let reported = false
    const answer = ask().finally(() => {
      reported = true
    })
    await vi.waitFor(() => expect(handler).toHaveBeenCalledOnce())
    await mutex()
    expect(reported).toBe(false)
    check.resolve(owner)
    expect((await answer).json()).toMatchObject({ name: 'a of ann as owner' })
    expect(handler).toHaveBeenCalledOnce()
    await app.close()
  })

  it('is discarded and repeated when the credential belongs to a different caller', async () => {
    const { app, check, handler, ask } = presuming(async call => {
      call.setCookie(`of=${call.project.memberRole}`)
      return found(call)
    })
    const answer = ask()
    await vi.waitFor(() => expect(handler).toHaveBeenCalledOnce())
    check.resolve(await whoIs('ann:admin', 'shared'))
    expect((await answer).json()).toMatchObject({ name: 'a of ann as viewer' })
    expect((await answer).headers['set-cookie']).toBe('of=viewer')
    expect(handler).toHaveBeenCalledTimes(2)
    await app.close()
  })

  it('sends its cookies when the presumed caller is confirmed', async () => {
    const { app, check, ask } = presuming(async call => {
      call.setCookie('a=b')
      return {}
    })
    check.resolve(owner)
    expect((await ask()).headers['set-cookie']).toBe('a=b')
    await app.close()
  })

  const never = () => new Promise<never>(() => undefined)
  const fails = async (): Promise<never> => {
    throw new Error('of the read')
  }
  it.each([
    ['finds something', found],
    ['fails', fails],
    ['never ends', never],
  ])('is discarded and the request refused if authentication fails, although the read %s', async (_what, read) => {
    const { app, check, handler, ask } = presuming(read)
    const answer = ask()
    await vi.waitFor(() => expect(handler).toHaveBeenCalledOnce())
    await mutex()
    check.reject(unauthenticated('Gone.'))
    expect((await answer).statusCode).toBe(401)
    expect((await answer).body).toContain('Gone.')
    expect(handler).toHaveBeenCalledOnce()
    await app.close()
  })

  it.each([
    [404, '/v1/things/a'],
    [400, '/v1/things/%00'],
  ])('fails with %i only after the presumed caller is confirmed', async (status, url) => {
    for (const right of [true, false]) {
      const { app, check, ask } = presuming(async () => {
        throw notFound()
      })
      const answer = ask('GET', url)
      await mutex()
      if (right) check.resolve(owner)
      else check.reject(unauthenticated())
      expect((await answer).statusCode).toBe(right ? status : 401)
      await app.close()
    }
  })

  it('answers HEAD and If-None-Match like a read that is not speculative', async () => {
    const { app, check, handler, ask } = presuming(found)
    check.resolve(owner)
    const { headers } = await ask()
    const known = { ...bearer('ann'), 'if-none-match': String(headers['etag']) }
    expect((await app.inject({ url: '/v1/things/a', headers: known })).statusCode).toBe(304)
    expect((await app.inject({ method: 'HEAD', url: '/v1/things/a', headers: known })).statusCode).toBe(304)
    expect(handler).toHaveBeenCalledTimes(3)
    await app.close()
  })
})

describe('a speculative read does not start', () => {
  const limits = {
    tenantPerMinute: 2,
    anonymousPerMinute: 100,
    loginPerMinute: 100,
    createsPerSecond: 1000,
    refusalDelayMs: 0,
  }

  it('once the rate limit is used up, and each request is counted once', async () => {
    const { app, check, handler, ask } = presuming(found, owner, { config: { rateLimits: limits } })
    check.resolve(owner)
    const answers = [await ask(), await ask(), await ask(), await ask()]
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 429, 429])
    expect(answers.map(({ headers }) => String(headers['ratelimit']).slice(0, 12))).toEqual([
      '"tenant";r=1',
      '"tenant";r=0',
      '"tenant";r=0',
      '"tenant";r=0',
    ])
    expect(handler).toHaveBeenCalledTimes(2)
    await app.close()
  })

  it('for more concurrent requests than the rate limit has left', async () => {
    const { app, check, handler, ask } = presuming(found, owner, { config: { rateLimits: limits } })
    const answers = Promise.all(Array.from({ length: 5 }, () => ask()))
    await mutex()
    expect(handler).toHaveBeenCalledTimes(2)
    check.resolve(owner)
    expect((await answers).map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 200, 429, 429, 429])
    expect(handler).toHaveBeenCalledTimes(2)
    await app.close()
  })

  it.each([
    ['whose last known caller lacked the scope', { ...owner, caller: { ...owner.caller, scopes: new Set<'read'>() } }],
    ['whose last known caller was not in the project', { ...owner, project: undefined }],
  ])('for a credential %s', async (_what, presumed) => {
    const { app, check, handler, ask } = presuming(found, presumed)
    const answer = ask()
    await mutex()
    expect(handler).not.toHaveBeenCalled()
    check.resolve(owner)
    expect((await answer).statusCode).toBe(200)
    expect(handler).toHaveBeenCalledOnce()
    await app.close()
  })

  it('for operations that write, stream, call other services, or need no credential', () => {
    const { handlers } = neverCalled(allOperations)
    const begun = Object.entries(allOperations).filter(
      ([id, operation]) => handlers[id] && beginReadOf(createRoute(id, operation, handlers[id], false)),
    )
    expect(begun.length).toBeGreaterThan(40)
    for (const [id, { method, auth, answer, asksOthers }] of begun)
      expect([method, auth, answer === 'stream', asksOthers], id).toEqual(['GET', 'bearer', false, undefined])
    const ids = begun.map(([id]) => id)
    for (const id of ['listRepositories', 'getBuildLog', 'streamDeployments', 'createApp', 'getHealth'])
      expect(ids).not.toContain(id)
  })
})
