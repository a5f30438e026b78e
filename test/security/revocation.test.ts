/** Open event streams end within a second of what takes the right to them away. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Identity, testPassword } from '../support/identity.ts'
import { type Belongings, settle, startWholeApi } from './cases.ts'

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
  ['the end of the account', ({ person: { token } }) => api.call('DELETE', '/v1/auth/me', { token })],
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

it.each(revocations)('%s', async (_name, revoke) => {
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
  expect(performance.now() - began).toBeLessThan(1_000)
  expect((await fetch(`${base}/v1/workspace/events`, { headers })).status).toBe(401)
  const reader = untouched.body?.getReader()
  expect((await reader?.read())?.done).toBe(false)
  other.abort()
})
