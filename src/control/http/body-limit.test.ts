/** Size limits of request bodies, and how many requests a large body counts as. */
import { Type } from 'typebox'
import { afterAll, describe, expect, it } from 'vitest'
import { bodyLimitOf, bytesPerRequest, longestJson, requestsFor } from './body-limit.ts'
import { allOperations } from '../operations.ts'
import { allowedSettings } from '../databases/rules.ts'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import type { Operation } from './operation.ts'
import { list, maybe, oneOf, stringMap, text, uint32, uuid } from './types.ts'

const kib = 1 << 10
const operations: readonly (readonly [string, Operation])[] = Object.entries(allOperations)

const ofId = (id: string): Operation => {
  const found = operations.find(([name]) => name === id)?.[1]
  if (!found) throw new Error(`there is no operation ${id}`)
  return found
}

describe('the maximum body size of an operation', () => {
  it('is 64 KiB except for the operations whose bodies can be larger', () => {
    const larger = operations.flatMap(([id, operation]) => {
      const limit = bodyLimitOf(operation)
      return limit === bytesPerRequest ? [] : [[id, limit / kib]]
    })
    expect(Object.fromEntries(larger)).toEqual({
      putGitCredential: 128,
      setDatabaseBackupTarget: 128,
      putAppEnv: 256,
      putAppFile: 1024,
      putEnvGroupVariable: 256,
      openVmSession: 128,
      startRun: 128,
      putJob: 128,
      createVmDirectory: 128,
      moveVmFile: 256,
      writeVmFile: 64 * 1024 * 1024,
      execInVm: 256,
      validateGenerations: 1024,
      receiveBillingWebhook: 1024,
      receiveAppWebhook: 1024,
      receiveScmWebhook: 5 * 1024,
      putAppSource: 64 * 1024,
    })
  })

  it('is large enough for every body that the schema allows, up to 1 MiB', () => {
    const derived = operations.filter(([, { body, maxBytes }]) => body !== undefined && maxBytes === undefined)
    expect(derived.length).toBeGreaterThan(40)
    for (const [id, operation] of derived) {
      const needed = Math.min(longestJson(operation.body ?? {}), 1024 * kib)
      expect(bodyLimitOf(operation), id).toBeGreaterThanOrEqual(needed)
    }
  })

  it('of createDatabase allows all database settings at once, each of maximum length', () => {
    const settings = Object.keys(allowedSettings).map(name => longestJson(text({ maxLength: 200 })) + name.length)
    expect(settings.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(bodyLimitOf(ofId('createDatabase')))
  })

  it.each([
    ['text, each character escaped', text({ maxLength: 10 }), JSON.stringify('\0'.repeat(10)).length],
    ['one of several words', oneOf(['a', 'long']), '"long"'.length * 6],
    ['a list', list(text({ maxLength: 1 }), { maxItems: 3 }), '[]'.length + 3 * ('"\\u0000"'.length + 1)],
    ['text without a bound', text(), Number.POSITIVE_INFINITY],
    ['a list without a bound', list(uuid()), Number.POSITIVE_INFINITY],
    ['a map without a bound', stringMap(), Number.POSITIVE_INFINITY],
    ['anything', Type.Unknown(), Number.POSITIVE_INFINITY],
  ])('follows from the longest JSON that the schema allows: %s', (_what, schema, bytes) => {
    expect(longestJson(schema)).toBe(bytes)
  })

  it('is at least as long as a body with the longest value in each field', () => {
    const schema = Type.Object({ id: uuid(), size: maybe(uint32()), note: maybe(text({ maxLength: 5 })) })
    const whole = JSON.stringify({ id: 'x'.repeat(36), size: 4_294_967_295, note: '\x01'.repeat(5) })
    expect(longestJson(schema)).toBeGreaterThanOrEqual(whole.length)
  })
})

describe('a large body', () => {
  const limits = {
    tenantPerMinute: 40,
    anonymousPerMinute: 1000,
    loginPerMinute: 1000,
    createsPerSecond: 1000,
    refusalDelayMs: 0,
  }
  const fixture = createFixture({ config: { rateLimits: limits } })
  afterAll(() => fixture.app.close())
  const send = (bytes: number, person: string) =>
    fixture.app.inject({
      method: 'POST',
      url: '/v1/things/x/poke',
      headers: { ...bearer(person), 'content-type': 'application/json' },
      payload: `{"name":"${'x'.repeat(bytes - '{"name":""}'.length)}"}`,
    })

  it('counts as one request per 64 KiB', async () => {
    const left = async (bytes: number) => /r=(\d+)/.exec(String((await send(bytes, 'ann')).headers['ratelimit']))?.[1]
    expect([await left(100), await left(64 * kib), await left(64 * kib + 1), await left(1024 * kib)]).toEqual([
      '39',
      '38',
      '36',
      '20',
    ])
  })

  it('is accepted if at least one request is left, and makes the next request wait for its size', async () => {
    for (let n = 0; n < 3; n++) expect((await send(1024 * kib, 'bob')).statusCode).not.toBe(429)
    const refused = await send(100, 'bob')
    expect(refused.statusCode).toBe(429)
    // The three bodies count as 48 requests of a quota of 40, so the next request waits until 9 requests are refilled:
    // 13.5 s.
    expect(refused.headers['retry-after']).toBe('14')
  })

  it('counts as the maximum size if its length is unknown, and as one request if it is refused for exceeding the maximum', () => {
    const file = ofId('putAppFile')
    const count = (headers: Record<string, string>) => requestsFor(headers, file)
    expect(count({ 'transfer-encoding': 'chunked' })).toBe(16)
    expect(count({ 'content-length': String(1024 * kib) })).toBe(16)
    expect(count({ 'content-length': String(1024 * kib + 1) })).toBe(1)
    expect(count({})).toBe(1)
    expect(requestsFor({ 'content-length': String(1024 * kib) }, ofId('putAppSource'))).toBe(1)
  })

  it('is refused with the maximum size in the message', async () => {
    const { statusCode, body } = await send(2 * 1024 * kib, 'carl')
    expect(statusCode).toBe(413)
    expect(JSON.parse(body)).toMatchObject({ error: 'The body is too large: at most 1 MiB here.' })
  })
})
