import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { StatementError } from '../../db/errors.ts'
import { invalidState, notFound } from './errors.ts'
import { bearer, createFixture, thing } from '../../../test/support/api-fixture.ts'
import { asker } from '../../../test/support/control/http.ts'

const fixture = createFixture()
const { app } = fixture
afterAll(() => app.close())

const json = { 'content-type': 'application/json' }
const ann = bearer('ann')
const ask = asker(app)

describe('write operations', () => {
  it('write the user, the origin and the action to the audit log', async () => {
    fixture.audited.length = 0
    await ask('POST', '/v1/things', { ...ann, ...json, 'user-agent': 'test', 'x-request-id': 'r1' }, '{"name":"x"}')
    expect(fixture.audited).toEqual([
      {
        action: 'thing.created',
        resourceType: 'thing',
        userId: 'ann',
        projectId: 'ann',
        via: { kind: 'session', sessionId: 'session-ann' },
        origin: { ip: '127.0.0.1', userAgent: 'test', requestId: 'r1' },
        operation: 'createThing',
      },
    ])
  })

  it('take effect once if the idempotency key and the body are the same', async () => {
    fixture.audited.length = 0
    const headers = { ...ann, ...json, 'idempotency-key': '"k1"' }
    const first = await ask('POST', '/v1/things', headers, '{"name":"once"}')
    const second = await ask('POST', '/v1/things', { ...headers, 'idempotency-key': 'k1' }, '{"name":"once"}')
    expect(first.headers['idempotent-replayed']).toBeUndefined()
    expect(second.headers['idempotent-replayed']).toBe('true')
    expect(second.body).toBe(first.body)
    expect(fixture.audited).toHaveLength(1)
    const other = await ask('POST', '/v1/things', headers, '{"name":"other"}')
    expect([other.statusCode, other.json().code]).toEqual([409, 'idempotency_key_reused'])
    const elsewhere = await ask('POST', '/v1/things/x/poke', headers, '{"name":"once"}')
    expect(elsewhere.statusCode).toBe(409)
    expect((await ask('POST', '/v1/things', { ...headers, ...bearer('bob') }, '{"name":"bob"}')).statusCode).toBe(200)
  })

  it('get the stored response for a repeated idempotency key, although the first request removed the resource', async () => {
    let exists = true
    const other = createFixture({
      handlers: {
        deleteThing: {
          write: async call => {
            if (!exists) throw notFound()
            return async () => {
              exists = false
              call.audit({ action: 'thing.deleted', resourceType: 'thing' })
              return null
            }
          },
        },
      },
    })
    const remove = (key: string) =>
      other.app.inject({ method: 'DELETE', url: '/v1/things/x', headers: { ...ann, 'idempotency-key': key } })
    const answers = [await remove('k'), await remove('k'), await remove('another')]
    expect(answers.map(({ statusCode, headers }) => [statusCode, headers['idempotent-replayed']])).toEqual([
      [200, undefined],
      [200, 'true'],
      [404, undefined],
    ])
    await other.app.close()
  })

  it('may reuse the idempotency key of a failed request', async () => {
    let fail = true
    const other = createFixture({
      handlers: {
        pokeThing: {
          write: async call => async () => {
            if (fail) throw invalidState('not now')
            call.audit({ action: 'thing.poked', resourceType: 'thing' })
            return { ok: true }
          },
        },
      },
    })
    const poke = () =>
      other.app.inject({
        method: 'POST',
        url: '/v1/things/x/poke',
        headers: { ...ann, ...json, 'idempotency-key': 'k' },
        payload: '{}',
      })
    expect((await poke()).statusCode).toBe(409)
    fail = false
    expect((await poke()).json()).toEqual({ ok: true })
    await other.app.close()
  })

  it('are tried at most three times after a deadlock or serialization failure, and write one audit row', async () => {
    const deadlock = () =>
      new StatementError('t.lock', Object.assign(new pg.DatabaseError('deadlock', 1, 'error'), { code: '40P01' }))
    let [left, tries] = [2, 0]
    const other = createFixture({
      handlers: {
        pokeThing: {
          write: async call => async () => {
            tries++
            call.audit({ action: 'thing.poked', resourceType: 'thing' })
            if (left-- > 0) throw deadlock()
            return { ok: true }
          },
        },
      },
    })
    const poke = () =>
      other.app.inject({ method: 'POST', url: '/v1/things/x/poke', headers: { ...ann, ...json }, payload: '{}' })
    expect((await poke()).json()).toEqual({ ok: true })
    expect([tries, other.audited.length]).toEqual([3, 1])
    left = 3
    tries = 0
    expect((await poke()).statusCode).toBe(503)
    expect([tries, other.audited.length]).toEqual([3, 1])
    await other.app.close()
  })

  it('need a `write` handler, or the server does not start', () => {
    const build = () => createFixture({ handlers: { createThing: { read: async () => thing('x') } } })
    expect(build).toThrow('createThing changes something')
  })
})
