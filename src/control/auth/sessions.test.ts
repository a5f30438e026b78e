import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeEachPostgres } from '../../../test/support/database.ts'
import { type Identity, startIdentity, testPassword } from '../../../test/support/identity.ts'

describeEachPostgres('a session', which => {
  let api: Identity
  beforeAll(async () => {
    api = await startIdentity({ postgres: which })
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  it('begins with a registration or a sign-in, is continued by a refresh, and ends with a sign-out', async () => {
    const person = await api.person('Ada.Lovelace@Example.com')
    const me = await api.call('GET', '/v1/auth/me', { token: person.token })
    expect(me.body).toMatchObject({ id: person.id, email: 'ada.lovelace@example.com', totp_enabled: false })
    expect(me.body['vpc_ipv6_prefix']).toMatch(/^fd[0-9a-f]{2}:[0-9a-f]{1,4}:[0-9a-f]{1,4}:[0-9a-f]{1,4}::\/64$/)
    const projects = await api.call('GET', '/v1/projects', { token: person.token })
    expect(projects.body).toMatchObject([{ tenant_id: 'ada-lovelace', name: 'ada.lovelace' }])

    const fresh = await api.call('POST', '/v1/auth/refresh', { body: { refresh_token: person.refreshToken } })
    expect(fresh.status).toBe(200)
    expect(fresh.body['refresh_token']).toMatch(/^svc_rt_/)
    expect((await api.call('GET', '/v1/auth/me', { token: fresh.body['token'] })).status).toBe(200)

    const body = { refresh_token: fresh.body['refresh_token'] }
    expect((await api.call('POST', '/v1/auth/logout', { body })).body).toEqual({ status: 'logged_out' })
    expect((await api.call('POST', '/v1/auth/logout', { body })).status).toBe(200)
    expect((await api.call('GET', '/v1/auth/me', { token: fresh.body['token'] })).status).toBe(401)
    expect((await api.call('POST', '/v1/auth/refresh', { body })).status).toBe(401)
  })

  it('ends together with all others of the account when a used refresh token is presented again', async () => {
    const first = await api.person()
    const other = await api.login(first.email)
    const bystander = await api.person()
    const body = { refresh_token: first.refreshToken }
    const winner = await api.call('POST', '/v1/auth/refresh', { body })
    expect(winner.status).toBe(200)
    expect((await api.call('POST', '/v1/auth/refresh', { body })).status).toBe(401)
    for (const token of [first.token, other.token, winner.body['token']]) {
      expect((await api.call('GET', '/v1/auth/me', { token })).status).toBe(401)
    }
    for (const refresh_token of [winner.body['refresh_token'], other.refreshToken]) {
      expect((await api.call('POST', '/v1/auth/refresh', { body: { refresh_token } })).status).toBe(401)
    }
    expect((await api.call('GET', '/v1/auth/me', { token: bystander.token })).status).toBe(200)
  })

  it('is continued by a repeated refresh with the same random Idempotency-Key until the new token is used', async () => {
    const person = await api.person()
    const refresh = (refresh_token: unknown, key?: string) =>
      api.call('POST', '/v1/auth/refresh', {
        body: { refresh_token },
        ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
      })
    const key = 'k'.repeat(22)
    const [first, ...repeats] = await Promise.all([1, 2, 3].map(() => refresh(person.refreshToken, key)))
    expect([first?.status, ...repeats.map(one => one.status)]).toEqual([200, 200, 200])
    const next = first?.body['refresh_token']
    expect(repeats.map(one => one.body['refresh_token'])).toEqual([next, next])
    for (const { body } of repeats)
      expect((await api.call('GET', '/v1/auth/me', { token: body['token'] })).status).toBe(200)
    expect((await refresh(next)).status).toBe(200)
    expect((await refresh(person.refreshToken, key)).status).toBe(401)

    for (const [used, repeated] of [
      [key, `${key}2`],
      [key, undefined],
      ['too-short', 'too-short'],
    ] as const) {
      const other = await api.person()
      expect((await refresh(other.refreshToken, used)).status).toBe(200)
      expect((await refresh(other.refreshToken, repeated)).status).toBe(401)
      expect((await api.call('GET', '/v1/auth/me', { token: other.token })).status).toBe(401)
    }
  })

  it('is listed until it is revoked', async () => {
    const first = await api.person()
    const second = await api.login(first.email, '203.0.113.5')
    const list = await api.call('GET', '/v1/auth/sessions', { token: second.token })
    expect(list.body).toMatchObject([
      { id: second.sessionId, ip_address: '203.0.113.5', current: true },
      { id: first.sessionId, current: false },
    ])
    const path = `/v1/auth/sessions/${first.sessionId}`
    const stranger = await api.person()
    expect((await api.call('DELETE', path, { token: stranger.token })).status).toBe(404)
    expect((await api.call('DELETE', path, { token: second.token })).status).toBe(200)
    expect((await api.call('DELETE', path, { token: second.token })).status).toBe(404)
    expect((await api.call('GET', '/v1/auth/me', { token: first.token })).status).toBe(401)
    expect((await api.call('GET', '/v1/auth/me', { token: second.token })).status).toBe(200)
  })

  it('ends with a password change, but access tokens remain valid', async () => {
    const person = await api.person()
    const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body: { name: 'ci' } })
    expect(pat.body['token']).toMatch(/^svc_pat_/)
    const next = 'another fine sentence 42'
    const wrong = { current_password: 'nope nope nope', new_password: next }
    expect((await api.call('POST', '/v1/auth/password', { token: person.token, body: wrong })).status).toBe(400)
    const body = { current_password: testPassword, new_password: next }
    const changed = await api.call('POST', '/v1/auth/password', { token: person.token, body })
    expect(changed.body).toEqual({ status: 'password_changed' })
    expect((await api.call('GET', '/v1/auth/me', { token: person.token })).status).toBe(401)
    expect((await api.call('GET', '/v1/auth/me', { token: pat.body['token'] })).status).toBe(200)
    const login = { email: person.email, password: next }
    expect((await api.call('POST', '/v1/auth/login', { body: login })).status).toBe(200)
  })

  it('is refused with the same response for an unknown e-mail address and for a wrong password', async () => {
    const { email } = await api.register()
    const wrong = await api.call('POST', '/v1/auth/login', { body: { email, password: 'wrong wrong' } })
    const unknown = await api.call('POST', '/v1/auth/login', {
      body: { email: 'nobody@example.com', password: 'wrong wrong' },
    })
    expect([wrong.status, unknown.status]).toEqual([401, 401])
    const { request_id: _, ...a } = wrong.body
    const { request_id: __, ...b } = unknown.body
    expect(a).toEqual(b)
  })

  // passwords.test.ts checks that the verification for an unknown e-mail address takes the same work as for a known
  // one: response times on a busy host could not show it.
  it('is refused for an unknown e-mail address only after a password verification, or with 503 if too many wait for one', async () => {
    const replies = await Promise.all(
      Array.from({ length: 140 }, (_, n) =>
        api.call('POST', '/v1/auth/login', {
          body: { email: `nobody-${n}@example.com`, password: 'wrong wrong' },
          ip: `198.51.100.${n}`,
        }),
      ),
    )
    const statuses = new Set(replies.map(({ status }) => status))
    expect([...statuses].toSorted()).toEqual([401, 503])
  })

  it('cannot be started from an IP address for a few seconds after five failed sign-ins; a success resets this count', async () => {
    const { email } = await api.register()
    const ip = '198.51.100.7'
    const attempt = (password: string) => api.call('POST', '/v1/auth/login', { body: { email, password }, ip })
    for (let i = 0; i < 5; i++) expect((await attempt('wrong wrong')).status).toBe(401)
    const blocked = await attempt(testPassword)
    expect(blocked.status).toBe(429)
    expect(Number(blocked.headers['retry-after'])).toBeGreaterThan(0)
    const elsewhere = await api.call('POST', '/v1/auth/login', {
      body: { email, password: testPassword },
      ip: '198.51.100.8',
    })
    expect(elsewhere.status).toBe(200)
    api.clock.advance(3_000)
    expect((await attempt(testPassword)).status).toBe(200)
    expect((await attempt('wrong wrong')).status).toBe(401)
    expect((await attempt(testPassword)).status).toBe(200)
  })

  it("causes a notification if it comes from a new IP address, except for the account's first sign-in", async () => {
    const { email } = await api.register()
    const first = await api.login(email, '203.0.113.1')
    await api.login(email, '203.0.113.1')
    const kinds = async () => {
      const list = await api.call('GET', '/v1/notifications', { token: first.token })
      return list.body['notifications'].map((n: { kind: string }) => n.kind)
    }
    expect(await kinds()).toEqual([])
    await api.login(email, '203.0.113.2')
    expect(await kinds()).toEqual(['security.new_login'])
  })
})

describe('registration', () => {
  it('makes exactly one account Admin if several first registrations are concurrent', async () => {
    await using api = await startIdentity()
    const people = await Promise.all(Array.from({ length: 8 }, () => api.person()))
    const roles = await Promise.all(
      people.map(async ({ token }) => (await api.call('GET', '/v1/auth/me', { token })).body['role']),
    )
    expect(roles.filter(role => role === 'Admin')).toHaveLength(1)
  })

  it('accepts one of several registrations of an e-mail address, and gives accounts of equal names different slugs and prefixes', async () => {
    await using api = await startIdentity()
    const body = { email: 'same@example.com', password: testPassword, captcha_id: '', captcha_answer: '' }
    const replies = await Promise.all(Array.from({ length: 8 }, () => api.call('POST', '/v1/auth/register', { body })))
    expect(replies.map(r => r.status).sort()).toEqual([200, 409, 409, 409, 409, 409, 409, 409])
    const others = await Promise.all([1, 2, 3, 4].map(n => api.person(`same@example${n}.com`)))
    const found = await Promise.all(
      others.map(async ({ token }) => {
        const [me, projects] = await Promise.all([
          api.call('GET', '/v1/auth/me', { token }),
          api.call('GET', '/v1/projects', { token }),
        ])
        return [me.body['vpc_ipv6_prefix'], projects.body[0].tenant_id] as const
      }),
    )
    expect(new Set(found.map(([prefix]) => prefix)).size).toBe(4)
    expect(new Set(found.map(([, slug]) => slug)).size).toBe(4)
  })

  it('leaves no rows in the database when a registration fails', async () => {
    await using api = await startIdentity()
    for (const password of ['short', 'password123', 'qwertyuiop', 'x'.repeat(129)]) {
      const body = { email: 'x@example.com', password, captcha_id: '', captcha_answer: '' }
      const reply = await api.call('POST', '/v1/auth/register', { body })
      expect([password, reply.status]).toEqual([password, 400])
    }
    const count = await api.deps.db.one<{ n: number }>({
      name: 'test.count',
      text: 'SELECT count(*) AS n FROM account',
    })
    expect(count.n).toBe(0)
  })
})
