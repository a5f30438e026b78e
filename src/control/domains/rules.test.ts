import { describe, expect, it } from 'vitest'
import { days, hours, minutes, seconds } from '../../lib/duration.ts'
import { type Found, type Watched, checkDomainName, decide } from './rules.ts'

describe('the name of a custom domain', () => {
  const check = (name: string) => checkDomainName(name, ['mote.example', 'api.example.net'])
  it.each([
    ['www.example.com', 'www.example.com'],
    ['WWW.Example.COM.', 'www.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['example.net', 'example.net'],
    ['notmote.example', 'notmote.example'],
  ])('%s is normalized to %s', (given, kept) => expect(check(given)).toBe(kept))
  it.each([
    ['*.example.com', 'wildcards'],
    ['localhost', 'must be a domain name'],
    ['10.0.0.1', 'must be a domain name'],
    ['a_b.example.com', 'must be a domain name'],
    ['-a.example.com', 'must be a domain name'],
    ['http://example.com/', 'must be a domain name'],
    ['example.com:80', 'must be a domain name'],
    ['mote.example', 'belongs to this installation'],
    ['hello-demo.mote.example', 'belongs to this installation'],
    ['api.example.net', 'belongs to this installation'],
    [`${'a.'.repeat(120)}example.com`, 'at most'],
  ])('%s is refused', (name, why) => expect(() => check(name)).toThrow(why))
})

describe('the next state of a domain after a DNS check', () => {
  const now = new Date('2026-01-15T00:00:00Z')
  const domain = (change: Partial<Watched> = {}): Watched => ({
    state: 'pending',
    misses: 0,
    createdAt: new Date(now.getTime() - minutes(4)),
    ...change,
  })
  const missing: Found = { kind: 'missing', message: 'none' }
  const unclear: Found = { kind: 'unclear', message: 'SERVFAIL' }

  it.each(['pending', 'lost', 'verified'] as const)('is verified for a %s domain if the record was found', state =>
    expect(decide(domain({ state, misses: 2 }), { kind: 'proven' }, now)).toEqual({
      state: 'verified',
      misses: 0,
      message: null,
      nextCheckMs: hours(6),
    }),
  )
  it.each([
    [seconds(0), seconds(15)],
    [minutes(4), minutes(1)],
    [days(1), hours(1)],
    [days(15), days(1)],
  ])('is pending for a domain that is %d ms old, and the next check follows %d ms later', (ageMs, nextCheckMs) => {
    const createdAt = new Date(now.getTime() - ageMs)
    expect(decide(domain({ createdAt }), missing, now)).toMatchObject({ state: 'pending', nextCheckMs })
    expect(decide(domain({ createdAt }), unclear, now)).toMatchObject({ state: 'pending', nextCheckMs })
  })
  it('is lost for a verified domain at the third missing record in a row; an unanswered query does not count', () => {
    const verified = domain({ state: 'verified' })
    expect(decide(verified, missing, now)).toMatchObject({ state: 'verified', misses: 1 })
    expect(decide({ ...verified, misses: 1 }, missing, now)).toMatchObject({ state: 'verified', misses: 2 })
    expect(decide({ ...verified, misses: 2 }, missing, now)).toMatchObject({ state: 'lost', misses: 3 })
    expect(decide({ ...verified, misses: 2 }, unclear, now)).toMatchObject({ state: 'verified', misses: 2 })
  })
})
