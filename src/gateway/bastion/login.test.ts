import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { AuthContext } from 'ssh2'
import ssh2 from 'ssh2'
import { describe, expect, it } from 'vitest'
import type { ControlAnswers } from './bastion.ts'
import { decide } from './login.ts'

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const blob = Buffer.from('session id and request')

/** Fields that ssh2 passes for each signature algorithm of a client (RFC 4253, RFC 8332, RFC 5656). */
const algorithms: readonly [name: string, key: KeyObject, algo: string, hash: string | undefined, accepted: boolean][] =
  [
    ['ssh-rsa', rsa, 'ssh-rsa', undefined, false],
    ['rsa-sha2-256', rsa, 'ssh-rsa', 'sha256', true],
    ['rsa-sha2-512', rsa, 'ssh-rsa', 'sha512', true],
    ['ecdsa-sha2-nistp256', p256, 'ecdsa-sha2-nistp256', undefined, true],
  ]

describe.each(algorithms)('a client that signs with %s', (_, privateKey, algo, hashAlgo, accepted) => {
  const parsed = ssh2.utils.parseKey(privateKey.export({ type: privateKey === rsa ? 'pkcs1' : 'sec1', format: 'pem' }))
  if (parsed instanceof Error) throw parsed
  const asked: boolean[] = []
  const control = {
    logIn: async ({ credential }) => {
      asked.push(credential.kind === 'key' && credential.proven)
      return 'the grant'
    },
  } as Partial<ControlAnswers> as ControlAnswers
  const signature = sign(algo === 'ssh-rsa' ? (hashAlgo ?? 'sha1') : 'sha256', blob, privateKey)
  const context = (signed: object) =>
    ({
      username: 'web',
      method: 'publickey',
      key: { algo, data: parsed.getPublicSSH() },
      hashAlgo,
      ...signed,
    }) as unknown as AuthContext

  it(
    accepted ? 'is asked to sign, and granted after it has signed' : 'is refused, with and without a signature',
    async () => {
      const verdicts = [
        await decide(context({}), '::1', control),
        await decide(context({ blob, signature }), '::1', control),
      ]
      const refused = { kind: 'refused', counts: false }
      expect(verdicts).toEqual(
        accepted ? [{ kind: 'accepted' }, { kind: 'granted', grant: 'the grant' }] : [refused, refused],
      )
      expect(asked).toEqual(accepted ? [false, true] : [])
    },
  )
})
