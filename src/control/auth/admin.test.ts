import { expect, it } from 'vitest'
import { startIdentity } from '../../../test/support/identity.ts'
import { revokeAllSessions, setAccountRole } from './index.ts'

it('the role Admin can be granted and revoked, except for the last Admin', async () => {
  await using api = await startIdentity()
  const [first, second] = [await api.person(), await api.person()]
  const { db } = api.deps
  await expect(setAccountRole(db, first.email, 'User')).rejects.toThrow('last Admin')
  await setAccountRole(db, second.email.toUpperCase(), 'Admin')
  const races = await Promise.allSettled([first, second].map(({ email }) => setAccountRole(db, email, 'User')))
  expect(races.map(r => r.status).sort()).toEqual(['fulfilled', 'rejected'])
  await expect(setAccountRole(db, 'nobody@example.com', 'Admin')).rejects.toThrow('no account')
})

it('a revocation of all sessions ends each session of the account', async () => {
  await using api = await startIdentity()
  const person = await api.person()
  await api.login(person.email)
  expect(await revokeAllSessions(api.deps.db, person.email)).toBe(2)
  expect((await api.call('GET', '/v1/auth/me', { token: person.token })).status).toBe(401)
})

it('refused credentials are audited up to a limit per IP address', async () => {
  await using api = await startIdentity()
  const person = await api.person()
  await api.call('POST', '/v1/auth/logout', { body: { refresh_token: person.refreshToken } })
  for (let i = 0; i < 40; i++) await api.call('GET', '/v1/auth/me', { token: person.token, ip: '203.0.113.9' })
  const again = await api.login(person.email)
  const list = await api.call('GET', '/v1/audit-logs?action=auth.credential_refused', { token: again.token })
  expect(list.body['total']).toBe(30)
  expect(list.body['items'][0]).toMatchObject({ user_id: person.id, ip_address: '203.0.113.9' })
})
