/** A stolen credential (session or token) alone must not suffice to weaken or delete the account. */
import { TOTP } from 'otpauth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Identity, type Person, startIdentity, testPassword } from '../../../test/support/identity.ts'
import type { Operation } from '../http/operation.ts'
import { authOperations } from './schema.ts'

let api: Identity
beforeAll(async () => {
  api = await startIdentity()
  await api.person()
})
afterAll(() => api[Symbol.asyncDispose]())

type Id = keyof typeof authOperations

/**
 * Operations that change an account without a proof of the user's identity (password, code or recent sign-in), each
 * with the reason.
 */
const withoutProof: Readonly<Partial<Record<Id, string>>> = {
  updateMe: 'changes names and e-mail settings only; nothing that is used to sign in',
  sendVerification: 'mails a link to the e-mail address of the account and changes nothing',
  setupTotp: 'not in force before verifyTotp',
  setupTotpByPost: 'not in force before verifyTotp',
  createToken:
    'the specification: authorised by a JWT or a PAT; never wider than the credential, and reported by e-mail',
  revokeToken: 'removes rights, and must work at once after a theft',
  revokeSession: 'removes rights, and must work at once after a theft',
  addSshKey: 'gives access only to databases that the credential can access as well',
  removeSshKey: 'removes rights, and must work at once after a theft',
}

const operations: readonly (readonly [string, Operation])[] = Object.entries(authOperations)
const changing = operations.filter(([id, one]) => one.auth === 'bearer' && (one.method !== 'GET' || id === 'setupTotp'))

it('each operation that changes an account requires a proof, or is an exception with a reason', () => {
  const undecided = changing.filter(([id, one]) => (one.stepUp === true) === id in withoutProof).map(([id]) => id)
  expect(undecided).toEqual([])
})

interface Factor {
  readonly person: Person
  readonly secret: string
}

/** A user who has enabled the second factor, or (`isOn` is false) has only started to set it up. */
async function settled(isOn: boolean): Promise<Factor> {
  const person = await api.person()
  const { body } = await api.call('GET', '/v1/auth/2fa/setup', { token: person.token })
  const secret = String(body['secret'])
  if (isOn) {
    const code = codeOf(secret)
    expect((await api.call('POST', '/v1/auth/2fa/verify', { token: person.token, body: { code } })).status).toBe(200)
  }
  return { person, secret }
}
const codeOf = (secret: string) => new TOTP({ secret }).generate({ timestamp: api.clock.now().getTime() })

/** How to call each operation with a proof, and whether the second factor must be enabled for the call. */
const cases = {
  deleteMe: {
    method: 'DELETE',
    path: '/v1/auth/me',
    isOn: false,
    body: (password: string | undefined) => (password === undefined ? undefined : { password }),
  },
  disableTotp: {
    method: 'POST',
    path: '/v1/auth/2fa/disable',
    isOn: true,
    body: (password: string | undefined) => (password === undefined ? undefined : { password }),
  },
  verifyTotp: {
    method: 'POST',
    path: '/v1/auth/2fa/verify',
    isOn: false,
    body: (password: string | undefined, secret: string) =>
      password === undefined ? { code: codeOf(secret) } : { code: codeOf(secret), password },
  },
  changeEmail: {
    method: 'POST',
    path: '/v1/auth/email',
    isOn: false,
    body: (password: string | undefined) =>
      password === undefined ? { email: 'next@example.org' } : { email: 'next@example.org', password },
  },
  changePassword: {
    method: 'POST',
    path: '/v1/auth/password',
    isOn: false,
    body: (password: string | undefined) => ({
      current_password: password ?? '',
      new_password: 'quite another staple 9 horses',
    }),
  },
} as const

const proved = operations.filter(([, one]) => one.stepUp).map(([id]) => id)

it('each operation that requires a proof has a test case', () => {
  expect(proved.toSorted()).toEqual(Object.keys(cases).toSorted())
})

describe.each(Object.entries(cases))('%s', (_, { method, path, isOn, body }) => {
  const refused = (status: number) => status === 403 || status === 400

  it.each(['session', 'token'] as const)(
    'requires a valid password if the %s is older than ten minutes',
    async kind => {
      const { person, secret } = await settled(isOn)
      const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body: { name: 'ci' } })
      api.clock.advance(11 * 60_000)
      const token = kind === 'session' ? person.token : String(pat.body['token'])
      const send = (password: string | undefined) => {
        const sent = body(password, secret)
        return api.call(method, path, { token, ...(sent === undefined ? {} : { body: sent }) })
      }
      expect(refused((await send(undefined)).status)).toBe(true)
      expect(refused((await send('wrong wrong')).status)).toBe(true)
      expect((await api.call('GET', '/v1/auth/me', { token })).body).toMatchObject({ totp_enabled: isOn })
      expect((await send(testPassword)).status).toBe(200)
    },
  )

  it('requires a proof even with a newly created token', async () => {
    const { person, secret } = await settled(isOn)
    const pat = await api.call('POST', '/v1/auth/tokens', { token: person.token, body: { name: 'ci' } })
    const sent = body(undefined, secret)
    const reply = await api.call(method, path, {
      token: String(pat.body['token']),
      ...(sent === undefined ? {} : { body: sent }),
    })
    expect(refused(reply.status)).toBe(true)
  })
})
