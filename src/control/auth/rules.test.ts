import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { isCommonPassword } from './common-passwords.ts'
import { createGate, createPasswordHasher } from './passwords.ts'
import { backoffMs, expandScopes, passwordFault } from './rules.ts'

describe('password rules', () => {
  it.each([
    'password',
    'Password1',
    'P@ssw0rd2024!',
    '12345678',
    '123456789',
    'qwertyuiop',
    'qwerty123',
    'abc123456',
    '1q2w3e4r',
    '1qaz2wsx',
    'aaaaaaaa',
    'abcabcabc',
    '11111111',
    'iloveyou2',
    'trustno1',
    'sunshine99',
    'monkeymonkey',
    'Football!',
    'letmein123',
    'asdfghjkl',
    '87654321',
    'zxcvbnm,',
    'welcome1',
    'baseball22',
    'superman',
    'starwars',
    'Summer2025',
    // The published list contains these passwords, but the rules for base words do not find them.
    'bigdaddy',
    'Blink182',
    'jordan23',
    'rush2112',
  ])('%s is a common password', password => {
    expect(isCommonPassword(password)).toBe(true)
  })

  it.each([
    'correct horse battery',
    'tr0ub4dor&3x',
    'gK8#mPq2vL',
    'the quick brown fox',
    'zebra-ladder-93',
    'пароль-на-русском',
    '走れメロスは激怒した',
  ])('%s is not a common password', password => {
    expect(isCommonPassword(password)).toBe(false)
  })

  it('require 8 to 128 characters (code points) and a difference from the e-mail address', () => {
    const about = { email: 'ada.lovelace@example.com' }
    expect(passwordFault('1234567', about)).toMatch('at least 8')
    expect(passwordFault('😀😁😂🤣😃😄😅', about)).toMatch('at least 8')
    expect(passwordFault('😀😁😂🤣😃😄😅😆', about)).toBeUndefined()
    expect(passwordFault('xy'.repeat(64), about)).toMatch('commonly used')
    expect(passwordFault(`${'long words and more '.repeat(6)}12345678`, about)).toBeUndefined()
    expect(passwordFault(`${'long words and more '.repeat(6)}123456789`, about)).toMatch('at most 128')
    expect(passwordFault('Ada.Lovelace', about)).toMatch('e-mail')
    expect(passwordFault('ada.lovelace@example.com', about)).toMatch('e-mail')
  })

  it('apply to the full length, beyond 72 characters', async () => {
    const hasher = createPasswordHasher()
    const long = 'x'.repeat(100)
    const stored = await hasher.hash(long)
    expect(stored).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    expect(await hasher.verify(long, stored)).toBe(true)
    expect(await hasher.verify(`${'x'.repeat(99)}y`, stored)).toBe(false)
    expect(await hasher.verify('no account has this password', undefined)).toBe(false)
  })
})

describe('the queue for password hashing', () => {
  it('runs a limited number of jobs at once, queues a limited number, and refuses the rest', async () => {
    const gate = createGate(2, 3)
    let inside = 0
    let most = 0
    const doors: (() => void)[] = []
    const work = async () => {
      most = Math.max(most, ++inside)
      await new Promise<void>(resolve => doors.push(resolve))
      inside--
    }
    const results = Promise.allSettled(Array.from({ length: 8 }, () => gate(work)))
    for (let opened = 0; opened < 5; opened++) {
      await until(() => doors.length > 0, { what: 'somebody inside' })
      doors.shift()?.()
      await setImmediate()
    }
    const settled = await results
    expect(settled.filter(r => r.status === 'fulfilled')).toHaveLength(5)
    expect(settled.filter(r => r.status === 'rejected')).toHaveLength(3)
    for (const result of settled)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ status: 503, retryAfterSeconds: 2 })
    expect(most).toBe(2)
  })

  it('starts the next job after a job has failed', async () => {
    const gate = createGate(1, 0)
    await expect(gate(() => Promise.reject(new Error('x')))).rejects.toThrow('x')
    expect(await gate(async () => 1)).toBe(1)
  })
})

describe('sign-in rules', () => {
  it('expand a scope to the scopes that it includes, and ignore unknown scopes', () => {
    expect([...expandScopes(['deploy'])].sort()).toEqual(['deploy', 'read'])
    expect([...expandScopes(['admin'])].sort()).toEqual(['admin', 'deploy', 'exec', 'read', 'write'])
    expect([...expandScopes(['toString', 'root'])]).toEqual([])
  })

  it('delay further attempts by 2 s, doubled each time, up to 15 minutes', () => {
    expect([4, 5, 6, 7].map(n => backoffMs(n, 5))).toEqual([0, 2000, 4000, 8000])
    expect(backoffMs(1_000_000, 5)).toBe(900_000)
  })
})
