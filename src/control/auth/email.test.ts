/**
 * Ownership of an e-mail address is proved by opening a mailed link: for verification, password resets, changes of the
 * address, and invitations.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  accept,
  type Identity,
  type Person,
  type Reply,
  startIdentity,
  testPassword,
} from '../../../test/support/identity.ts'
import { outgoingMails, type SendMail } from '../notifications/index.ts'
import { printLink } from './index.ts'

type Mail = Parameters<SendMail>[0]
let api: Identity
let mails: Mail[] = []
beforeAll(async () => {
  api = await startIdentity({ env: { MOTE_SMTP_URL: 'smtp://127.0.0.1:1', MOTE_PUBLIC_URL: 'https://mote.example' } })
  await api.person()
})
afterAll(() => api[Symbol.asyncDispose]())

/** Returns every queued mail, oldest first. */
async function sent(): Promise<readonly Mail[]> {
  mails = []
  const sweep = outgoingMails(api.deps, async mail => void mails.push(mail))
  await sweep.run({ signal: AbortSignal.timeout(10_000), now: new Date(api.clock.now().getTime() + 1000) } as never)
  return mails
}
const tokenIn = (mail: Mail | undefined) => /https:\/\/mote\.example\/link\/\w+#(\S+)/.exec(mail?.text ?? '')?.[1] ?? ''
const to = (all: readonly Mail[], email: string) => all.filter(mail => mail.to === email)
const post = (path: string, body: object, token?: string) =>
  api.call('POST', path, { body, ...(token === undefined ? {} : { token }) })
const me = async (token: string) => (await api.call('GET', '/v1/auth/me', { token })).body
const verify = (token: string) => post('/v1/auth/email/verify', { token })

describe('the verification of an e-mail address', () => {
  it('accepts only the secret of the mailed link, once', async () => {
    await sent()
    const person = await api.person()
    const [mail] = to(await sent(), person.email)
    expect((await me(person.token))['email_verified']).toBe(false)
    const token = tokenIn(mail)
    expect(token).toMatch(/^svc_link_[\w-]{43}$/)
    for (const wrong of ['', 'x', `${token}x`, `svc_link_${'A'.repeat(43)}`])
      expect((await verify(wrong)).status).toBe(400)
    expect((await verify(token)).body).toEqual({ status: 'verified' })
    expect((await me(person.token))['email_verified']).toBe(true)
    expect((await verify(token)).status).toBe(400)
    expect((await post('/v1/auth/email/verification', {}, person.token)).status).toBe(409)
  })

  it('has a link that is sent again on demand, at most once a minute, which invalidates older links', async () => {
    const person = await api.person()
    const first = tokenIn(to(await sent(), person.email)[0])
    expect((await post('/v1/auth/email/verification', {}, person.token)).body).toEqual({ status: 'sent_a_moment_ago' })
    expect(to(await sent(), person.email)).toEqual([])
    api.clock.advance(61_000)
    expect((await post('/v1/auth/email/verification', {}, person.token)).body).toEqual({ status: 'sent' })
    const second = tokenIn(to(await sent(), person.email)[0])
    expect((await verify(first)).status).toBe(400)
    api.clock.advance(8 * 24 * 3_600_000)
    expect((await verify(second)).status).toBe(400)
  })
})

describe('a forgotten password', () => {
  const newPassword = 'quite another staple 9 horses'

  it('gets the same response with and without an account, and only an existing account gets a mail', async () => {
    const { email } = await api.register()
    await sent()
    const answers = [
      await post('/v1/auth/password/forgot', { email }),
      await post('/v1/auth/password/forgot', { email: 'nobody@example.org' }),
      // A second request within a minute sends no further link.
      await post('/v1/auth/password/forgot', { email }),
    ]
    for (const { status, body } of answers) expect([status, body]).toEqual([200, { status: 'accepted' }])
    expect((await sent()).map(mail => mail.to)).toEqual([email])
  })

  it('is reset with the mailed link, which ends sessions, verifies the e-mail address and cannot be used again', async () => {
    const person = await api.person()
    await post('/v1/auth/password/forgot', { email: person.email })
    const all = to(await sent(), person.email)
    const token = tokenIn(all.find(mail => mail.subject === 'Reset your password'))
    expect((await verify(token)).status).toBe(400)
    expect((await post('/v1/auth/password/reset', { token, new_password: 'short' })).status).toBe(400)
    expect((await post('/v1/auth/password/reset', { token, new_password: newPassword })).status).toBe(200)
    expect((await post('/v1/auth/password/reset', { token, new_password: testPassword })).status).toBe(400)
    expect((await api.call('GET', '/v1/auth/me', { token: person.token })).status).toBe(401)
    const login = await post('/v1/auth/login', { email: person.email, password: newPassword })
    expect(login.body['user']).toMatchObject({ email_verified: true })
    // The password reset has invalidated the earlier verification link.
    expect((await verify(tokenIn(all[0]))).status).toBe(400)
  })

  it('cannot be reset with a link that was mailed before a password change', async () => {
    const person = await api.person()
    await post('/v1/auth/password/forgot', { email: person.email })
    const token = tokenIn(to(await sent(), person.email).at(-1))
    const body = { current_password: testPassword, new_password: newPassword }
    expect((await post('/v1/auth/password', body, person.token)).status).toBe(200)
    expect((await post('/v1/auth/password/reset', { token, new_password: testPassword })).status).toBe(400)
  })

  it('can be reset by the owner of the e-mail address, which signs out another person who had registered it', async () => {
    const squatter = await api.person('owner-of@example.org')
    await post('/v1/auth/password/forgot', { email: squatter.email })
    const token = tokenIn(to(await sent(), squatter.email).at(-1))
    expect((await post('/v1/auth/password/reset', { token, new_password: newPassword })).status).toBe(200)
    expect((await api.call('GET', '/v1/auth/me', { token: squatter.token })).status).toBe(401)
  })
})

describe('a change of the e-mail address', () => {
  it('requires verification of the new address, and notifies the old one at both steps', async () => {
    const person = await api.person()
    await sent()
    const next = `next-${person.email}`
    const ask = await post('/v1/auth/email', { email: next.toUpperCase() }, person.token)
    expect(ask.body).toEqual({ status: 'sent' })
    const asked = await sent()
    expect(asked.map(mail => mail.to).toSorted()).toEqual([next, person.email].toSorted())
    expect((await me(person.token))['email']).toBe(person.email)
    expect(tokenIn(to(asked, person.email)[0])).toBe('')
    expect((await verify(tokenIn(to(asked, next)[0]))).body).toEqual({ status: 'changed' })
    expect(await me(person.token)).toMatchObject({ email: next, email_verified: true })
    expect((await sent()).map(mail => mail.to)).toEqual([person.email])
    expect((await post('/v1/auth/login', { email: person.email, password: testPassword })).status).toBe(401)
  })

  it('is refused on confirmation if the new address belongs to another account', async () => {
    const [person, other] = [await api.person(), await api.person()]
    await sent()
    await post('/v1/auth/email', { email: other.email }, person.token)
    const token = tokenIn(to(await sent(), other.email)[0])
    const reply = await verify(token)
    expect([reply.status, reply.body['code']]).toEqual([409, 'name_taken'])
    expect((await me(person.token))['email']).toBe(person.email)
  })
})

describe('an invitation', () => {
  const invite = async (owner: Person, email: string): Promise<Reply['body']> => {
    const [home] = (await api.call('GET', '/v1/projects', { token: owner.token })).body as never as [
      { tenant_id: string },
    ]
    const path = `/v1/projects/${home.tenant_id}/members`
    const { status, body } = await post(path, { email, role: 'admin' }, owner.token)
    expect(status).toBe(200)
    return { ...body, path }
  }
  const projectsOf = async (token: string) =>
    ((await api.call('GET', '/v1/projects', { token })).body as never as unknown[]).length

  it('cannot be accepted by an account that was registered with the invited address but has not verified it', async () => {
    const owner = await api.person()
    const invitation = await invite(owner, 'ceo@example.org')
    const squatter = await api.person('ceo@example.org')
    expect((await api.call('GET', '/v1/invitations', { token: squatter.token })).body).toEqual([])
    for (const body of [{}, { secret: 'x' }, { secret: '' }])
      expect((await post(`/v1/invitations/${invitation.id}/accept`, body, squatter.token)).status).toBe(404)
    expect(await projectsOf(squatter.token)).toBe(1)
    // Once the e-mail address is verified, the account sees the invitation and can accept it.
    const token = tokenIn(to(await sent(), squatter.email).find(mail => mail.subject.startsWith('Confirm')))
    expect((await verify(token)).status).toBe(200)
    expect((await api.call('GET', '/v1/invitations', { token: squatter.token })).body).toHaveLength(1)
    expect((await post(`/v1/invitations/${invitation.id}/accept`, {}, squatter.token)).status).toBe(200)
    expect(await projectsOf(squatter.token)).toBe(2)
  })

  it('is mailed with a secret that any account can use once', async () => {
    const [owner, guest] = [await api.person(), await api.person()]
    await sent()
    const invitation = await invite(owner, 'old-address@example.org')
    const [mail] = await sent()
    expect(mail?.to).toBe('old-address@example.org')
    expect(mail?.text).toContain(String(invitation['link']))
    expect((await accept(api, invitation, guest.token)).status).toBe(200)
    expect((await accept(api, invitation, guest.token)).status).toBe(404)
  })

  it('gets a new secret when renewed, and the member list shows no secret', async () => {
    const [owner, guest] = [await api.person(), await api.person()]
    const first = await invite(owner, 'renewed@example.org')
    const second = await invite(owner, 'renewed@example.org')
    expect((await accept(api, first, guest.token)).status).toBe(404)
    const list = await api.call('GET', String(first['path']), { token: owner.token })
    expect(JSON.stringify(list.body)).not.toContain('link')
    expect((await accept(api, second, guest.token)).status).toBe(200)
  })
})

describe('an installation without a mail server', () => {
  it('lets an operator print the links that would be mailed', async () => {
    await using quiet = await startIdentity()
    const { db, vault } = quiet.deps
    const person = await quiet.person()
    const print = (purpose: 'verify' | 'reset' | 'change', email = person.email) =>
      printLink({ db, vault, publicUrl: 'https://mote.example' }, purpose, email)
    const tokenOf = (link: string) => new URL(link).hash.slice(1)
    const call = (path: string, body: object, token?: string) =>
      quiet.call('POST', path, { body, ...(token === undefined ? {} : { token }) })

    await expect(print('reset', 'nobody@example.org')).rejects.toThrow('There is no account')
    await expect(print('change')).rejects.toThrow('has not requested')
    const link = await print('verify')
    expect((await call('/v1/auth/email/verify', { token: tokenOf(link) })).body).toEqual({ status: 'verified' })
    await call('/v1/auth/email', { email: 'printed@example.org' }, person.token)
    const change = await print('change')
    expect((await call('/v1/auth/email/verify', { token: tokenOf(change) })).body).toEqual({ status: 'changed' })
    const reset = { token: tokenOf(await print('reset', 'printed@example.org')), new_password: 'a staple of 12 horses' }
    expect((await call('/v1/auth/password/reset', reset)).status).toBe(200)
  })
})
