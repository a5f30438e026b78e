// Not repeated on the distribution's PostgreSQL: this file tests the API, not the database.
/** Open event streams end within a second after their credential expires or is revoked. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createSessionTokens } from '../../src/control/auth/jwt.ts'
import { type Identity, testPassword } from '../support/identity.ts'
import { type Belongings, settle, startWholeApi } from './cases.ts'
import { promisedMs } from '../support/wait.ts'

let api: Identity
let base: string
beforeAll(async () => {
  api = await startWholeApi()
  await api.person()
  base = await api.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => api[Symbol.asyncDispose]())

const newPassword = 'quite another staple 8 horses'
const revocations: readonly [string, (owner: Belongings) => Promise<{ readonly status: number }>][] = [
  [
    'a password change',
    ({ person: { token } }) => {
      const body = { current_password: testPassword, new_password: newPassword }
      return api.call('POST', '/v1/auth/password', { token, body })
    },
  ],
  ['a logout', ({ person }) => api.call('POST', '/v1/auth/logout', { body: { refresh_token: person.refreshToken } })],
  ['deleting the account', ({ person: { token } }) => api.call('DELETE', '/v1/auth/me', { token })],
  [
    'a reused refresh token',
    async ({ person }) => {
      const body = { refresh_token: person.refreshToken }
      await api.call('POST', '/v1/auth/refresh', { body })
      const reused = await api.call('POST', '/v1/auth/refresh', { body })
      return { status: reused.status === 401 ? 200 : reused.status }
    },
  ],
]

const streamOf = (token: string) =>
  fetch(`${base}/v1/workspace/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(10_000),
  })

it('an event stream ends within a second after its JWT expires', async () => {
  const { person } = await settle(api)
  const { vault, clock } = api.deps
  const { sub, sid, epoch } = JSON.parse(Buffer.from(person.token.split('.')[1] ?? '', 'base64url').toString())
  const short = createSessionTokens({ vault, clock, ttlSeconds: 3 }).sign({ userId: sub, sessionId: sid, epoch })
  const { exp } = JSON.parse(Buffer.from(short.split('.')[1] ?? '', 'base64url').toString())
  const stream = await streamOf(short)
  expect(stream.status).toBe(200)
  expect(await stream.text()).toContain('the credential has expired')
  const lateMs = Date.now() - exp * 1000
  expect(lateMs).toBeGreaterThanOrEqual(-5)
  expect(lateMs).toBeLessThan(promisedMs(1_000))
  expect((await streamOf(short)).status).toBe(401)
})

it('an event stream ends within a second after its access token expires', async () => {
  const { person } = await settle(api)
  const expiresAt = new Date(Date.now() + 2_000)
  const body = { name: 'short', expires_at: expiresAt.toISOString() }
  const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body })
  const stream = await streamOf(String(pat.body['token']))
  expect(stream.status).toBe(200)
  await stream.text()
  expect(Date.now() - expiresAt.getTime()).toBeLessThan(promisedMs(1_000))
  expect((await streamOf(String(pat.body['token']))).status).toBe(401)
})

it('deleting an account revokes its sessions and access tokens, and ends their event streams', async () => {
  const { person, pat } = await settle(api)
  const streams = await Promise.all([person.token, pat, person.token].map(streamOf))
  expect(streams.map(({ status }) => status)).toEqual([200, 200, 200])
  const began = performance.now()
  expect((await api.call('DELETE', '/v1/auth/me', { token: person.token })).status).toBe(200)
  await Promise.all(streams.map(stream => stream.text()))
  for (const token of [person.token, pat])
    expect((await api.call('GET', '/v1/auth/me', { token })).status, 'at once').toBe(401)
  const body = { refresh_token: person.refreshToken }
  expect((await api.call('POST', '/v1/auth/refresh', { body })).status).toBe(401)
  expect(performance.now() - began).toBeLessThan(promisedMs(1_000))
})

it.each(revocations)(
  '%s ends the event stream of the session, and no event stream of another account',
  async (_name, revoke) => {
    const owner = await settle(api)
    const headers = { authorization: `Bearer ${owner.person.token}` }
    const stream = await fetch(`${base}/v1/workspace/events`, { headers, signal: AbortSignal.timeout(10_000) })
    expect(stream.status).toBe(200)
    const bystander = await settle(api)
    const other = new AbortController()
    const untouched = await fetch(`${base}/v1/workspace/events`, {
      headers: { authorization: `Bearer ${bystander.person.token}` },
      signal: other.signal,
    })
    const began = performance.now()
    expect((await revoke(owner)).status).toBe(200)
    await stream.text()
    expect(performance.now() - began).toBeLessThan(promisedMs(1_000))
    expect((await fetch(`${base}/v1/workspace/events`, { headers })).status).toBe(401)
    const reader = untouched.body?.getReader()
    expect((await reader?.read())?.done).toBe(false)
    other.abort()
  },
)
