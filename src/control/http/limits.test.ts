/** Rate limits and log lines of requests. */
import { afterAll, describe, expect, it } from 'vitest'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import { asker } from '../../../test/support/control/http.ts'

const fixture = createFixture()
const { app } = fixture
afterAll(() => app.close())

const json = { 'content-type': 'application/json' }
const ann = bearer('ann')
const ask = asker(app)

describe('rate limits', () => {
  const limits = {
    tenantPerMinute: 3,
    anonymousPerMinute: 2,
    loginPerMinute: 2,
    createsPerSecond: 1000,
    refusalDelayMs: 0,
  }
  const limited = () => createFixture({ config: { rateLimits: limits } })

  it('count the requests of each project separately', async () => {
    const other = limited()
    const statuses = []
    for (let i = 0; i < 4; i++) {
      const answer = await other.app.inject({ url: '/v1/things', headers: ann })
      statuses.push(answer.statusCode)
      if (answer.statusCode === 429) {
        expect(answer.headers['retry-after']).toBe('20')
        expect(answer.json()).toMatchObject({ status: 429, code: 'rate_limited' })
      }
    }
    expect(statuses).toEqual([200, 200, 200, 429])
    expect((await other.app.inject({ url: '/v1/things', headers: bearer('bob') })).statusCode).toBe(200)
    await other.app.close()
  })

  it('count wrong credentials per IP address, and do not affect a valid caller at the same address', async () => {
    const other = limited()
    const guess = () => other.app.inject({ url: '/v1/things', headers: { authorization: 'Bearer guess' } })
    expect([(await guess()).statusCode, (await guess()).statusCode, (await guess()).statusCode]).toEqual([
      401, 401, 429,
    ])
    expect((await other.app.inject({ url: '/v1/things', headers: ann })).statusCode).toBe(200)
    expect((await other.app.inject({ url: '/v1/alive' })).statusCode, 'probes are free').toBe(200)
    await other.app.close()
  })

  it('count sign-ins per IP address and e-mail address', async () => {
    const other = createFixture({ config: { rateLimits: { ...limits, anonymousPerMinute: 100 } } })
    const signIn = async (email: string) =>
      (await other.app.inject({ method: 'POST', url: '/v1/sign-in', payload: { email, password: 'x' } })).statusCode
    expect([await signIn('a@x'), await signIn('A@x'), await signIn('a@x'), await signIn('b@x')]).toEqual([
      200, 200, 429, 200,
    ])
    await other.app.close()
  })

  it('use the address in X-Forwarded-For only if the request comes from a configured proxy', async () => {
    const trusting = createFixture({ config: { rateLimits: limits, trustedProxies: ['127.0.0.1'] } })
    for (const [server, expected] of [
      [trusting, [404, 404, 404, 404]],
      [limited(), [404, 404, 429, 429]],
    ] as const) {
      const statuses = []
      for (const ip of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'])
        statuses.push((await server.app.inject({ url: '/v1/x', headers: { 'x-forwarded-for': ip } })).statusCode)
      expect(statuses).toEqual(expected)
      await server.app.close()
    }
  })
})

describe('the request log', () => {
  it("has one line per request, with the request's ids and without secrets", async () => {
    fixture.lines.length = 0
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    await ask(
      'POST',
      '/v1/things?token=sesame-query',
      { authorization: 'Bearer ann:write', ...json, traceparent, cookie: 'sesame-cookie' },
      '{"name":"sesame-body"}',
    )
    const lines = fixture.lines.map(line => JSON.parse(line))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatchObject({
      operation: 'createThing',
      method: 'POST',
      path: '/v1/things',
      status: 200,
      user_id: 'ann',
      project_id: 'ann',
      trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    })
    expect(fixture.lines.join()).not.toMatch(/sesame|Bearer|ann:write/)
  })

  it("contains the names, messages and stacks of a bug's cause chain, but no other members of the errors", async () => {
    const cause = Object.assign(new Error('inner'), { detail: 'Key (email)=(sesame)' })
    const other = createFixture({
      handlers: {
        breakThing: {
          read: async () => {
            throw new Error('outer', { cause })
          },
        },
      },
    })
    await other.app.inject({ url: '/v1/break', headers: ann })
    const text = other.lines.join()
    expect(text).toContain('outer')
    expect(text).toContain('inner')
    expect(text).not.toContain('sesame')
    await other.app.close()
  })
})
