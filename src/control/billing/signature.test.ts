import { describe, expect, it } from 'vitest'
import { BadSignature } from './provider.ts'
import { polarProvider } from './polar.ts'
import { literalKey, sign, standardKey, verify } from './signature.ts'
import { stripeProvider } from './stripe.ts'

/** The test vector of the reference implementations of Standard Webhooks. */
const official = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: '1614265330',
  body: Buffer.from('{"test": 2432232314}'),
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const at = (seconds: string | number, plus = 0) => new Date((Number(seconds) + plus) * 1000)
const headers = (change: Record<string, string | undefined> = {}) => ({
  'webhook-id': official.id,
  'webhook-timestamp': official.timestamp,
  'webhook-signature': official.signature,
  ...change,
})
const check = (change: Record<string, string | undefined> = {}, secret = official.secret, body = official.body) =>
  verify([standardKey(secret)], body, headers(change), at(official.timestamp))

describe('a Standard Webhooks signature', () => {
  it('is valid in the official test vector, with and without the prefix of the secret', () => {
    expect(check()).toBe(official.id)
    expect(check({}, official.secret.slice('whsec_'.length))).toBe(official.id)
    expect(sign(standardKey(official.secret), official.id, at(official.timestamp), official.body)).toBe(
      official.signature,
    )
  })

  it('is accepted if the header also contains other signatures', () => {
    const wrong = 'v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc='
    const other = 'v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    expect(check({ 'webhook-signature': `${wrong} ${other} ${official.signature} ${wrong}` })).toBe(official.id)
  })

  it.each([
    ['no id', { 'webhook-id': undefined }],
    ['no timestamp', { 'webhook-timestamp': undefined }],
    ['no signature', { 'webhook-signature': undefined }],
    ['an empty signature', { 'webhook-signature': '' }],
    ['half a signature', { 'webhook-signature': 'v1,' }],
    ['a shorter signature', { 'webhook-signature': official.signature.slice(0, -8) }],
    ['another version only', { 'webhook-signature': official.signature.replace('v1', 'v2') }],
    ['a timestamp that is not a number', { 'webhook-timestamp': 'hello' }],
    ['another timestamp', { 'webhook-timestamp': '1614265331' }],
    ['another id', { 'webhook-id': 'msg_other' }],
  ])('is refused with %s', (_, change) => expect(() => check(change)).toThrow(BadSignature))

  it('is refused for another body, for another secret, and if the configured secret is empty', () => {
    expect(() => check({}, official.secret, Buffer.from('{"test": 2432232315}'))).toThrow(BadSignature)
    expect(() => check({}, official.secret, Buffer.alloc(0))).toThrow(BadSignature)
    expect(() => check({}, 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD')).toThrow(BadSignature)
    const forged = sign(Buffer.from('x'), official.id, at(official.timestamp), official.body)
    expect(() => check({ 'webhook-signature': forged }, '')).toThrow(BadSignature)
  })

  it('is accepted for five minutes before and after its timestamp, to the second', () => {
    const after = (seconds: number) => () =>
      verify([standardKey(official.secret)], official.body, headers(), at(official.timestamp, seconds))
    expect(after(300)()).toBe(official.id)
    expect(after(-300)()).toBe(official.id)
    expect(after(301)).toThrow(BadSignature)
    expect(after(-301)).toThrow(BadSignature)
  })
})

const guard = <T>(call: () => Promise<T>) => call()

describe('a Polar signature', () => {
  const body = Buffer.from('{"type":"subscription.active"}')
  const vector = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': '1700000000',
    'webhook-signature': 'v1,LJMQwWUBrCr5DreZdHN/Fyhb4u3AOA6MIDHlv1UzCGQ=',
  }
  const raw = Buffer.from('{"type":"something.new"}')
  const polar = (...webhookSecrets: string[]) =>
    polarProvider({ accessToken: 'x', apiUrl: undefined, webhookSecrets, guard })

  it('is computed with the literal bytes of the secret as its key', () =>
    expect(verify([literalKey('polar_whs_test')], body, vector, at(1_700_000_000))).toBe('evt_1'))

  it.each([
    ['literal', literalKey],
    ['standard', standardKey],
  ])('is accepted with the %s key, and with any of several configured secrets', async (_, keyOf) => {
    const now = at(1_700_000_000)
    const signature = sign(keyOf(official.secret), 'evt_2', now, raw)
    const sent = { 'webhook-id': 'evt_2', 'webhook-timestamp': '1700000000', 'webhook-signature': signature }
    const delivery = await polar('polar_whs_newer', official.secret).open(raw, sent, now)
    expect(delivery).toEqual({ id: 'evt_2', type: 'something.new', event: { kind: 'other' } })
    await expect(polar('polar_whs_newer').open(raw, sent, now)).rejects.toThrow(BadSignature)
  })
})

describe('a Stripe signature', () => {
  const vector = {
    body: Buffer.from('{"id":"evt_test_webhook","object":"event"}'),
    secret: 'whsec_test_secret',
    header: 't=1700000000,v1=d95c6b7477fbd7e9f90b1b0ef5f9c7ac25abca5382460e0d988c2b2a5b71b990',
  }
  const open = (header: string | undefined, plus = 0, secrets = [vector.secret], raw = vector.body) =>
    stripeProvider({ apiKey: 'sk_test_x', apiUrl: undefined, webhookSecrets: secrets, guard }).open(
      raw,
      { 'stripe-signature': header },
      at(1_700_000_000, plus),
    )

  it('is valid in the test vector of the library, for at most 300 seconds', async () => {
    // The test vector has a valid signature but no event type, and the type is checked only after the signature.
    await expect(open(vector.header)).rejects.toThrow('type is missing')
    await expect(open(vector.header, 300)).rejects.toThrow('type is missing')
    await expect(open(vector.header, 0, ['whsec_newer', vector.secret])).rejects.toThrow('type is missing')
    await expect(open(`${vector.header},v1=00`)).rejects.toThrow('type is missing')
  })

  it.each([
    ['nothing', undefined],
    ['an empty header', ''],
    ['no signature', 't=1700000000'],
    ['no timestamp', vector.header.replace(/^.*,/, '')],
    ['another timestamp', vector.header.replace('t=1700000000', 't=1700000001')],
    ['only the test scheme', vector.header.replace('v1=', 'v0=')],
    ['half a signature', vector.header.slice(0, -8)],
  ])('is refused with %s', (_, header) => expect(open(header)).rejects.toThrow(BadSignature))

  it('is refused if it is old, was made for another body, or was made with another secret', async () => {
    await expect(open(vector.header, 301)).rejects.toThrow(BadSignature)
    await expect(open(vector.header, 0, [vector.secret], Buffer.from('{}'))).rejects.toThrow(BadSignature)
    await expect(open(vector.header, 0, ['whsec_other'])).rejects.toThrow(BadSignature)
  })
})
