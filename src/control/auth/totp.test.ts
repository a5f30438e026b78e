import { Secret, TOTP } from 'otpauth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Identity, type Person, startIdentity, testPassword } from '../../../test/support/identity.ts'
import { matchingStep, totpCode } from './totp.ts'

const seed = Buffer.from('12345678901234567890')
const base32 = new Secret({ buffer: Uint8Array.from(seed).buffer }).base32

// SHA-1 rows of RFC 6238, appendix B. A code of six digits is the end of the listed code of eight digits, because
// truncation takes the code modulo 10^digits.
const vectors = [
  [59, '94287082'],
  [1111111109, '07081804'],
  [1111111111, '14050471'],
  [1234567890, '89005924'],
  [2000000000, '69279037'],
  [20000000000, '65353130'],
] as const

describe('TOTP', () => {
  it.each(vectors)('accepts the test vector of RFC 6238 at %i s', (time, code) => {
    const step = Math.floor(time / 30)
    expect(matchingStep(base32, code.slice(2), new Date(time * 1000))).toBe(step)
    expect(matchingStep(base32, code.slice(2), new Date((time + 30) * 1000))).toBe(step)
    expect(matchingStep(base32, code.slice(2), new Date((time - 30) * 1000))).toBe(step)
    expect(matchingStep(base32, code.slice(2), new Date((time + 90) * 1000))).toBeUndefined()
  })

  it.each([
    ['SHA256', 32, ['46119246', '68084774', '67062674', '91819424', '90698825', '77737706']],
    ['SHA512', 64, ['90693936', '25091201', '99943326', '93441116', '38618901', '47863826']],
  ] as const)('is computed by a library that also supports %s', (algorithm, bytes, codes) => {
    const key = Buffer.alloc(bytes, seed)
    const totp = new TOTP({
      algorithm,
      digits: 8,
      period: 30,
      secret: new Secret({ buffer: Uint8Array.from(key).buffer }),
    })
    expect(vectors.map(([time]) => totp.generate({ timestamp: time * 1000 }))).toEqual(codes)
  })

  it('accepts codes with spaces or dashes between the digits', () => {
    expect(totpCode(' 123 456 ')).toBe('123456')
    expect(totpCode('12345')).toBeUndefined()
    expect(totpCode('abcd-efgh-jkmn-pqrs')).toBeUndefined()
  })
})

describe('two-factor authentication', () => {
  let api: Identity
  beforeAll(async () => {
    api = await startIdentity()
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  const codeNow = (secret: string) =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: api.clock.now().getTime() })

  async function enrolled(): Promise<{ person: Person; secret: string; recovery: string[] }> {
    const person = await api.person()
    const setup = await api.call('POST', '/v1/auth/2fa/setup', { token: person.token })
    expect(setup.body['otpauth_url']).toMatch(/^otpauth:\/\/totp\/Mote:user-[^?]+\?.*secret=[A-Z2-7]{32}(&|$)/)
    expect(setup.body['qr_code']).toMatch(/^data:image\/png;base64,/)
    const secret = String(setup.body['secret'])
    const verified = await api.call('POST', '/v1/auth/2fa/verify', {
      token: person.token,
      body: { code: codeNow(secret) },
    })
    expect(verified.body).toMatchObject({ totp_enabled: true })
    return { person, secret, recovery: verified.body['recovery_codes'] }
  }
  const login = (email: string, code?: string) =>
    api.call('POST', '/v1/auth/login', {
      body: { email, password: testPassword, ...(code === undefined ? {} : { code }) },
    })

  it('is enabled only when the user has verified a code, and a second setup cannot replace it', async () => {
    const person = await api.person()
    const setup = await api.call('GET', '/v1/auth/2fa/setup', { token: person.token })
    expect((await login(person.email)).body['requires_2fa']).toBe(false)
    const wrong = await api.call('POST', '/v1/auth/2fa/verify', { token: person.token, body: { code: '000000' } })
    expect(wrong.status).toBe(400)
    const body = { code: codeNow(setup.body['secret']) }
    expect((await api.call('POST', '/v1/auth/2fa/verify', { token: person.token, body })).status).toBe(200)
    for (const method of ['GET', 'POST'] as const) {
      expect((await api.call(method, '/v1/auth/2fa/setup', { token: person.token })).status).toBe(409)
    }
    expect((await login(person.email)).body).toMatchObject({ requires_2fa: true, token: null, refresh_token: null })
  })

  it('accepts each code once, and no code older than the last accepted one', async () => {
    const { person, secret } = await enrolled()
    const used = codeNow(secret)
    expect((await login(person.email, used)).status).toBe(401)
    api.clock.advance(30_000)
    const next = codeNow(secret)
    const replies = await Promise.all([1, 2, 3, 4].map(() => login(person.email, next)))
    expect(replies.filter(reply => reply.status === 200)).toHaveLength(1)
    api.clock.advance(3_600_000)
  })

  it('accepts each recovery code once', async () => {
    const { person, recovery } = await enrolled()
    expect(new Set(recovery).size).toBe(10)
    const [first = ''] = recovery
    const replies = await Promise.all(
      [1, 2, 3].map(() => login(person.email, first.toUpperCase().replaceAll('-', ' '))),
    )
    expect(replies.map(reply => reply.status).sort()).toEqual([200, 401, 401])
  })

  it('delays further sign-ins after five wrong codes', async () => {
    const { person } = await enrolled()
    for (let i = 0; i < 5; i++) expect((await login(person.email, '000000')).status).toBe(401)
    expect((await login(person.email, '000000')).status).toBe(429)
    api.clock.advance(3_600_000)
  })

  it('is disabled after a recent sign-in, or with the password or a code', async () => {
    const { person, secret } = await enrolled()
    api.clock.advance(11 * 60_000)
    const off = (body?: object, token = person.token) =>
      api.call('POST', '/v1/auth/2fa/disable', { token, ...(body ? { body } : {}) })
    expect((await off()).status).toBe(403)
    expect((await off({ password: 'wrong wrong' })).status).toBe(403)
    const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body: { name: 'x' } })
    expect((await off(undefined, pat.body['token'])).status).toBe(403)
    expect((await off({ code: codeNow(secret) })).body).toEqual({ status: 'disabled' })
    expect((await off({ password: testPassword })).status).toBe(409)
    expect((await login(person.email)).body['requires_2fa']).toBe(false)
  })
})
