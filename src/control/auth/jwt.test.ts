import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { newId } from '../../lib/ids.ts'
import { createVault } from '../../lib/vault.ts'
import { purposes } from './credentials.ts'
import { createSessionTokens } from './jwt.ts'

const [first, second, third] = ['one', 'two', 'three'].map(name => `${name}-secret-that-is-long-enough-for-us`) as [
  string,
  string,
  string,
]
let nowMs = 1_800_000_000_000
const clock = { now: () => new Date(nowMs), monotonicMs: () => nowMs }
const tokensOf = (...secrets: string[]) => createSessionTokens({ vault: createVault(secrets), clock, ttlSeconds: 3600 })
const claims = { userId: newId(), sessionId: newId(), epoch: 7 }

/** Returns a token with a valid signature and any contents. */
function forged(payload: object, header: object = {}): string {
  const [key] = createVault([first]).signingKeys(purposes.session)
  if (!key) throw new Error('BUG: no key')
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${encode({ alg: 'HS256', typ: 'JWT', kid: key.kid, ...header })}.${encode(payload)}`
  return `${text}.${createHmac('sha256', key.key).update(text).digest('base64url')}`
}
const nowSeconds = () => Math.floor(nowMs / 1000)
const good = () => ({
  sub: claims.userId,
  sid: claims.sessionId,
  epoch: 7,
  iat: nowSeconds(),
  exp: nowSeconds() + 60,
  iss: 'mote',
  aud: 'mote-api',
  typ: 'session',
})

describe('session tokens', () => {
  it('carry their claims until they expire', () => {
    const token = tokensOf(first).sign(claims)
    expect(tokensOf(first).verify(token)).toMatchObject(claims)
    nowMs += 3_599_000
    expect(tokensOf(first).verify(token)).toMatchObject(claims)
    nowMs += 1_000
    expect(tokensOf(first).verify(token)).toBeUndefined()
  })

  it('are cached by all their bytes, but their times are checked on each use', () => {
    const tokens = tokensOf(first)
    const token = tokens.sign(claims)
    const early = forged({ ...good(), iat: nowSeconds() + 60, exp: nowSeconds() + 7200 })
    for (let n = 0; n < 2; n++) {
      expect(tokens.verify(token)).toMatchObject(claims)
      expect(tokens.verify(early)).toBeUndefined()
      for (const at of [0, 60, token.length - 2]) {
        const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1)
        expect(tokens.verify(changed), String(at)).toBeUndefined()
      }
    }
    nowMs += 60_000
    expect(tokens.verify(early)).toMatchObject(claims)
    nowMs += 3_540_000
    expect(tokens.verify(token)).toBeUndefined()
    expect(tokens.verify(early)).toMatchObject(claims)
  })

  it('stay valid while their key is configured', () => {
    const token = tokensOf(first).sign(claims)
    expect(tokensOf(second, first).verify(token)).toMatchObject(claims)
    expect(tokensOf(second, third).verify(token)).toBeUndefined()
    expect(tokensOf(first).verify(tokensOf(second, first).sign(claims))).toBeUndefined()
  })

  it('are accepted if a test signs the contents of an issued token', () => {
    expect(tokensOf(first).verify(forged(good()))).toMatchObject(claims)
  })

  it.each([
    ['another type', { typ: 'refresh' }],
    ['another issuer', { iss: 'somebody' }],
    ['another audience', { aud: 'other-api' }],
    ['no expiry', { exp: undefined }],
    ['an expiry that is text', { exp: '9999999999' }],
    ['the future', { iat: 4_000_000_000, exp: 5_000_000_000 }],
    ['no subject', { sub: undefined }],
    ['a subject that is not an id', { sub: "' OR 1=1 --" }],
    ['no session', { sid: undefined }],
    ['no epoch', { epoch: undefined }],
    ['half an epoch', { epoch: 1.5 }],
  ])('are refused with %s despite a valid signature', (_name, change) => {
    expect(tokensOf(first).verify(forged({ ...good(), ...change }))).toBeUndefined()
  })

  it.each([
    ['the algorithm none', { alg: 'none' }],
    ['another algorithm', { alg: 'HS512' }],
    ['a key from elsewhere', { jku: 'https://evil.example/keys' }],
    ['an inline key', { jwk: { kty: 'oct', k: 'AAAA' } }],
    ['another key id', { kid: 'ffffffff' }],
    ['an embedded type', { typ: 'at+jwt' }],
  ])('are refused if the header has %s despite a valid signature', (_name, header) => {
    expect(tokensOf(first).verify(forged(good(), header))).toBeUndefined()
  })

  it.each(['', '.', '..', 'x', 'a.b', 'a.b.c', 'svc_rt_x', '😀'])('are refused if the text is %j', text => {
    expect(tokensOf(first).verify(text)).toBeUndefined()
  })

  it('are refused after a change of any single character', () => {
    const token = tokensOf(first).sign(claims)
    for (let i = 0; i < token.length - 1; i++) {
      const changed = token.slice(0, i) + (token[i] === 'A' ? 'B' : 'A') + token.slice(i + 1)
      expect(tokensOf(first).verify(changed), String(i)).toBeUndefined()
    }
  })
})
