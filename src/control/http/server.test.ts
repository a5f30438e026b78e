import pg from 'pg'
import { errorCodes } from 'fastify'
import { afterAll, describe, expect, it } from 'vitest'
import { DbUnavailable, StatementError } from '../../db/errors.ts'
import { BusError } from '../../bus/bus.ts'
import { asApiError } from './failure.ts'
import { bearer, createFixture, thing } from '../../../test/support/api-fixture.ts'
import { asker } from '../../../test/support/control/http.ts'

const fixture = createFixture()
const { app } = fixture
afterAll(() => app.close())

const json = { 'content-type': 'application/json' }
const ann = bearer('ann')
const ask = asker(app)

describe('error responses', () => {
  const rows: readonly [string, Parameters<typeof ask>, number, string, string?][] = [
    ['an unknown path', ['GET', '/v1/nowhere'], 404, 'not_found'],
    ['the root', ['GET', '/'], 404, 'not_found'],
    ['a method the path does not have', ['PUT', '/v1/things/x', ann], 405, 'method_not_allowed'],
    ['TRACE', ['TRACE', '/v1/things/x', ann], 405, 'method_not_allowed'],
    ['no credential', ['GET', '/v1/things'], 401, 'unauthenticated'],
    ['a malformed credential', ['GET', '/v1/things', { authorization: 'Bearer ' }], 401, 'unauthenticated'],
    ['another scheme', ['GET', '/v1/things', { authorization: 'Basic YTpi' }], 401, 'unauthenticated'],
    ['an unknown credential', ['GET', '/v1/things', { authorization: 'Bearer nobody' }], 401, 'unauthenticated'],
    ['a scope too small', ['POST', '/v1/things', bearer('ann', 'deploy'), '{}'], 403, 'forbidden', 'scope "write"'],
    ['an ordinary user', ['GET', '/v1/operate', ann], 403, 'forbidden', 'administrators'],
    ['a foreign project', ['GET', '/v1/things', { ...ann, 'x-project': 'bob' }], 404, 'not_found'],
    ['a foreign project in the query', ['GET', '/v1/things?project=bob', ann], 404, 'not_found'],
    ['two projects', ['GET', '/v1/things?project=ann&project=bob', ann], 404, 'not_found'],
    [
      'a foreign project in the path',
      ['PATCH', '/v1/places/bob', { ...ann, ...json }, '{"name":"x"}'],
      404,
      'not_found',
    ],
    [
      'an impossible project name',
      ['PATCH', '/v1/places/a%00b', { ...ann, ...json }, '{"name":"x"}'],
      404,
      'not_found',
    ],
    [
      'a viewer who writes',
      ['POST', '/v1/things', { ...ann, ...json, 'x-project': 'shared' }, '{"name":"x"}'],
      403,
      'forbidden',
      'viewer',
    ],
    [
      'no body',
      ['POST', '/v1/things', { ...ann, ...json }],
      400,
      'invalid_request',
      'The request needs a body: send it as application/json.',
    ],
    [
      'another media type',
      ['POST', '/v1/things', { ...ann, 'content-type': 'text/plain' }, '{"name":"x"}'],
      415,
      'unsupported_media_type',
    ],
    [
      'another charset',
      ['POST', '/v1/things', { ...ann, 'content-type': 'application/json; charset=utf-16' }, '{"name":"x"}'],
      415,
      'unsupported_media_type',
    ],
    [
      'an invalid media type',
      ['POST', '/v1/things', { ...ann, 'content-type': 'x' }, '{"name":"x"}'],
      415,
      'unsupported_media_type',
    ],
    ['half a body', ['POST', '/v1/things', { ...ann, ...json }, '{"name":'], 400, 'invalid_request', 'not valid JSON'],
    ['a list', ['POST', '/v1/things', { ...ann, ...json }, '[]'], 400, 'invalid_request', 'must be an object'],
    ['null', ['POST', '/v1/things', { ...ann, ...json }, 'null'], 400, 'invalid_request', 'must be an object'],
    ['a missing field', ['POST', '/v1/things', { ...ann, ...json }, '{}'], 400, 'invalid_request', 'name is required'],
    [
      'a wrong type',
      ['POST', '/v1/things', { ...ann, ...json }, '{"name":1}'],
      400,
      'invalid_request',
      'name must be text',
    ],
    [
      'a number as text',
      ['POST', '/v1/things', { ...ann, ...json }, '{"name":"x","size":"1"}'],
      400,
      'invalid_request',
      'size must be a whole number or null',
    ],
    [
      'a value not in the list',
      ['POST', '/v1/things', { ...ann, ...json }, '{"name":"x","size":3}'],
      400,
      'invalid_request',
      'size must be one of 1, 2, 4',
    ],
    [
      'a name of the wrong form',
      ['POST', '/v1/things', { ...ann, ...json }, '{"name":"A b"}'],
      400,
      'invalid_request',
      'name must have only lower-case letters',
    ],
    [
      'a duplicate key',
      ['POST', '/v1/things', { ...ann, ...json }, '{"name":"x","name":"y"}'],
      400,
      'invalid_request',
      'same key twice',
    ],
    ['a large body', ['POST', '/v1/things', { ...ann, ...json }, `"${'x'.repeat(1 << 20)}"`], 413, 'payload_too_large'],
    ['a bad query', ['GET', '/v1/things?limit=many', ann], 400, 'invalid_request', 'limit must be a whole number'],
    ['a parameter given twice', ['GET', '/v1/things?limit=1&limit=2', ann], 400, 'invalid_request', 'more than once'],
    ['a bad escape', ['GET', '/v1/things/%E0%A4%A', ann], 400, 'invalid_request', 'escape'],
    ['NUL in the path', ['GET', '/v1/things/a%00', ann], 400, 'invalid_request', 'NUL'],
    ['a long path', ['GET', `/v1/things/${'a'.repeat(600)}`, ann], 400, 'invalid_request', 'too long'],
    ['an error of the handler', ['GET', '/v1/things/none', ann], 404, 'not_found'],
    ['a raw body that is empty', ['POST', '/v1/hooks/x'], 400, 'invalid_request', 'The request needs a body.'],
    ['a bug', ['GET', '/v1/break', ann], 500, 'internal', 'on our side'],
    ['a mutation without an audit note', ['POST', '/v1/forget', ann], 500, 'internal'],
    [
      'a bad idempotency key',
      ['POST', '/v1/things', { ...ann, ...json, 'idempotency-key': 'ä' }, '{"name":"x"}'],
      400,
      'invalid_request',
      'Idempotency-Key',
    ],
  ]
  it.each(rows)('are sent for %s', async (_what, request, status, code, text = '') => {
    const answer = await ask(...request)
    expect(answer.statusCode).toBe(status)
    expect(answer.headers['content-type']).toBe('application/json')
    const body = answer.json()
    expect(body).toMatchObject({ status, code, request_id: answer.headers['x-request-id'] })
    expect(body.error).toContain(text)
    expect(answer.headers['x-content-type-options']).toBe('nosniff')
  })

  it('are the same for a missing resource and for one of another tenant', async () => {
    const body = async (url: string) => ({ ...(await ask('GET', url, ann)).json(), request_id: '' })
    expect(await body('/v1/things/none')).toEqual(await body('/v1/things/x?project=bob'))
  })

  it('are 401 before the body is parsed if the credential is unknown', async () => {
    const answer = await ask('POST', '/v1/things', { ...json, authorization: 'Bearer nobody' }, '{"name":')
    expect(answer.statusCode).toBe(401)
    expect(answer.headers['www-authenticate']).toBe('Bearer')
  })

  it('for an unsupported method list the methods of the path in Allow', async () => {
    const answer = await ask('PUT', '/v1/things/x')
    expect(answer.headers.allow).toBe('GET, DELETE, HEAD, OPTIONS')
  })

  it('name every invalid field and never repeat the input', async () => {
    const answer = await ask('POST', '/v1/things', { ...ann, ...json }, '{"name":"SECRET","size":9,"color":7}')
    expect(answer.json().details.map((detail: { field: string }) => detail.field)).toEqual(['name', 'size', 'color'])
    expect(answer.body).not.toContain('SECRET')
  })

  it('are 503 with Retry-After if the database or the bus fails, and 500 for an unexpected error', async () => {
    const causes = [
      new DbUnavailable('connect', 'no'),
      new BusError('timeout', 'no'),
      new StatementError('t', Object.assign(new pg.DatabaseError('no space left', 1, 'error'), { code: '53100' })),
      Object.assign(new Error('x'), {}),
    ]
    const statuses = []
    for (const cause of causes) {
      const other = createFixture({
        handlers: {
          breakThing: {
            read: async () => {
              throw cause
            },
          },
        },
      })
      const answer = await other.app.inject({ url: '/v1/break', headers: ann })
      statuses.push([answer.statusCode, answer.headers['retry-after']])
      await other.app.close()
    }
    expect(statuses).toEqual([
      [503, '2'],
      [503, '2'],
      [503, '2'],
      [500, undefined],
    ])
  })

  it('have a status below 500 for each Fastify error that Fastify itself maps to a status below 500', () => {
    for (const make of Object.values(errorCodes)) {
      const error = new make()
      if (error.statusCode !== undefined && error.statusCode < 500) expect(asApiError(error).status).toBeLessThan(500)
    }
  })
})

describe('responses', () => {
  it('contain only members that the schema names, with defaults filled in', async () => {
    const answer = await ask('POST', '/v1/things', { ...ann, ...json }, '{"name":"x","role":"Admin","unknown":1}')
    expect(answer.json()).toEqual({ ...thing('x'), note: 'red' })
    expect(answer.headers['cache-control']).toBe('no-store')
  })
  it('are replayed for an idempotency key even if the repeated body omits an undeclared member', async () => {
    const answer = await ask(
      'POST',
      '/v1/things',
      { ...ann, ...json, 'idempotency-key': 'm1' },
      '{"name":"x","role":"Admin"}',
    )
    const again = await ask('POST', '/v1/things', { ...ann, ...json, 'idempotency-key': 'm1' }, '{"name":"x"}')
    expect([answer.statusCode, again.headers['idempotent-replayed']]).toEqual([200, 'true'])
  })
  it('may be the JSON value null', async () => {
    const answer = await ask('DELETE', '/v1/things/x', ann)
    expect([answer.statusCode, answer.body]).toEqual([200, 'null'])
  })
  it('fail with 500 when they do not match the declared schema', async () => {
    const other = createFixture({ handlers: { getThing: { read: async () => ({ ...thing('x'), id: 'no uuid' }) } } })
    const answer = await other.app.inject({ url: '/v1/things/x', headers: ann })
    expect(answer.statusCode).toBe(500)
    expect(other.lines.join()).toContain('the answer of getThing is not what it declares: id must be a UUID')
    await other.app.close()
  })
  it('to GET have an entity tag, and are 304 if If-None-Match contains it', async () => {
    const first = await ask('GET', '/v1/things/x', ann)
    const tag = String(first.headers.etag)
    expect(tag).toMatch(/^W\/"/)
    for (const header of [tag, tag.slice(2), `"other", ${tag}`, '*']) {
      const second = await ask('GET', '/v1/things/x', { ...ann, 'if-none-match': header })
      expect([second.statusCode, second.body, second.headers.etag]).toEqual([304, '', tag])
    }
    expect((await ask('GET', '/v1/things/y', { ...ann, 'if-none-match': tag })).statusCode).toBe(200)
  })
  it('with a secret have no entity tag and are not cached', async () => {
    const answer = await ask('GET', '/v1/things/x/secret', ann)
    expect(answer.headers.etag).toBeUndefined()
    expect(answer.headers['cache-control']).toBe('no-store')
  })
  it('to HEAD requests have no body', async () => {
    const answer = await ask('HEAD', '/v1/things/x', ann)
    expect([answer.statusCode, answer.body]).toEqual([200, ''])
  })
  it('may be plain text', async () => {
    const answer = await ask('GET', '/v1/alive')
    expect([answer.body, answer.headers['content-type']]).toEqual(['ok', 'text/plain; charset=utf-8'])
  })
  it('are successful for an empty body of any content type if no body is required', async () => {
    for (const type of ['application/json', 'application/x-www-form-urlencoded'])
      expect((await ask('DELETE', '/v1/things/x', { ...ann, 'content-type': type }, '')).statusCode).toBe(200)
  })
  it("are successful for raw bodies of any content type up to the operation's limit, and 413 beyond it", async () => {
    const send = (bytes: number) => ask('POST', '/v1/hooks/x', { 'content-type': 'foo/bar' }, 'x'.repeat(bytes))
    expect((await send(2 << 20)).json()).toEqual({ bytes: 2 << 20, name: 'x' })
    expect((await send((2 << 20) + 1)).statusCode).toBe(413)
  })
})

describe('browser pages', () => {
  it('of configured origins may read responses, and those of other origins may not', async () => {
    const ours = await ask('GET', '/v1/things', { ...ann, origin: 'https://console.example.com' })
    expect(ours.headers['access-control-allow-origin']).toBe('https://console.example.com')
    expect(ours.headers.vary).toBe('Origin')
    const theirs = await ask('GET', '/v1/things', { ...ann, origin: 'https://evil.example.com' })
    expect(theirs.headers['access-control-allow-origin']).toBeUndefined()
  })
  it('of configured origins get a response to their preflight request', async () => {
    const headers = { origin: 'https://console.example.com', 'access-control-request-method': 'DELETE' }
    const answer = await ask('OPTIONS', '/v1/things/x', headers)
    expect(answer.statusCode).toBe(204)
    expect(answer.headers['access-control-allow-methods']).toContain('DELETE')
    expect((await ask('OPTIONS', '/v1/things/x')).headers['access-control-allow-methods']).toBeUndefined()
  })
})

describe('closing the server', () => {
  it('finishes running requests and refuses new ones', async () => {
    const running = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const other = createFixture({
      handlers: {
        getThing: {
          read: async () => {
            running.resolve()
            await release.promise
            return thing('late')
          },
        },
      },
    })
    const address = await other.app.listen({ port: 0, host: '127.0.0.1' })
    const first = fetch(`${address}/v1/things/x`, { headers: ann })
    await running.promise
    const closed = other.app.close()
    release.resolve()
    expect(await (await first).json()).toEqual(thing('late'))
    await closed
    await expect(fetch(`${address}/v1/things/x`, { headers: ann })).rejects.toThrow()
  })
})
