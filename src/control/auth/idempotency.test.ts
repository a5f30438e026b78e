import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeEachPostgres } from '../../../test/support/database.ts'
import { type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { hours } from '../../lib/duration.ts'
import { expiredCredentials } from './index.ts'

const keys = statement<{ n: number }>('test.keys', 'SELECT count(*) AS n FROM idempotency_key')

describeEachPostgres('idempotency keys', which => {
  let api: Identity
  let person: Person
  beforeAll(async () => {
    api = await startIdentity({ postgres: which })
    person = await api.person()
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  const create = (key: string, name = 'x', token = person.token) =>
    api.call('POST', '/v1/auth/tokens', { token, body: { name }, headers: { 'idempotency-key': key } })
  const countTokens = async () => (await api.call('GET', '/v1/auth/tokens', { token: person.token })).body['length']

  it('have a single effect for repeated and for concurrent requests', async () => {
    const before = await countTokens()
    const replies = await Promise.all(Array.from({ length: 60 }, (_, i) => create(`key-${i % 20}`)))
    expect(await countTokens()).toBe(before + 20)
    for (let i = 0; i < 20; i++) {
      const same = [replies[i], replies[i + 20], replies[i + 40]]
      expect(same.map(reply => reply?.status)).toEqual([200, 200, 200])
      expect(new Set(same.map(reply => reply?.body['token'])).size).toBe(1)
      expect(same.filter(reply => reply?.headers['idempotent-replayed'] === 'true')).toHaveLength(2)
    }
  })

  it('are refused with 409 for a different request, and do not collide with the same keys of other users', async () => {
    const first = await create('mine')
    const other = await create('mine', 'another name')
    expect([other.status, other.body['code']]).toEqual([409, 'idempotency_key_reused'])
    const stranger = await api.person()
    const theirs = await create('mine', 'x', stranger.token)
    expect(theirs.status).toBe(200)
    expect(theirs.body['token']).not.toBe(first.body['token'])
  })

  it('can be used again after the first request has failed', async () => {
    expect((await create('retry', 'x'.repeat(101))).status).toBe(400)
    const body = { name: 'x', project: 'no-such-project' }
    const headers = { 'idempotency-key': 'retry' }
    expect((await api.call('POST', '/v1/auth/tokens', { token: person.token, body, headers })).status).toBe(400)
    expect((await create('retry')).status).toBe(200)
  })

  it('expire after 24 hours, even before the sweep deletes them', async () => {
    const first = await create('old')
    api.clock.advance(hours(24) - 60_000)
    const fresh = await api.login(person.email)
    expect((await create('old', 'x', fresh.token)).body['token']).toBe(first.body['token'])
    api.clock.advance(120_000)
    expect((await create('old', 'x', fresh.token)).body['token']).not.toBe(first.body['token'])
    api.clock.advance(hours(25))
    const swept = await expiredCredentials(api.deps).run({ signal: new AbortController().signal, now: api.clock.now() })
    expect(swept['idempotencyKeys']).toBeGreaterThan(20)
    expect((await api.deps.db.one(keys)).n).toBe(0)
  })
})
