import type { AuthContext } from 'ssh2'
import ssh2 from 'ssh2'
import type { ControlAnswers } from './bastion.ts'

/**
 * Result of a login step. `accepted`: the key is registered, and the client now has to prove that it owns it.
 * `refused`: `counts` is whether this is a failed login.
 */
export type Verdict =
  | { readonly kind: 'granted'; readonly grant: string }
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly counts: boolean }

/** Decides one step of a login (RFC 4252, 7 and 8). */
export async function decide(context: AuthContext, ip: string, control: ControlAnswers): Promise<Verdict> {
  const user = context.username
  switch (context.method) {
    case 'password': {
      const grant = await control.logIn({ user, ip, credential: { kind: 'token', token: context.password } })
      return grant === null ? { kind: 'refused', counts: true } : { kind: 'granted', grant }
    }
    case 'publickey': {
      if (isSha1(context)) return { kind: 'refused', counts: false }
      const proven = context.signature !== undefined && hasSigned(context)
      if (context.signature !== undefined && !proven) return { kind: 'refused', counts: true }
      const publicKey = context.key.data.toString('base64')
      const grant = await control.logIn({ user, ip, credential: { kind: 'key', publicKey, proven } })
      // Clients offer all their keys one by one, so an unknown key does not count as a failed login.
      if (grant === null) return { kind: 'refused', counts: false }
      return proven ? { kind: 'granted', grant } : { kind: 'accepted' }
    }
    default:
      // A login with the method `none` is refused but does not count: clients use it to query the available methods.
      return { kind: 'refused', counts: false }
  }
}

/**
 * Whether a signature is RSA with SHA-1, for which signatures can be forged (RFC 8332, 5.3). ssh2 names no hash for
 * `ssh-rsa`.
 */
const isSha1 = ({ key, hashAlgo }: Extract<AuthContext, { method: 'publickey' }>) =>
  key.algo === 'ssh-rsa' && hashAlgo === undefined

function hasSigned(context: Extract<AuthContext, { method: 'publickey' }>): boolean {
  const key = ssh2.utils.parseKey(context.key.data)
  if (key instanceof Error || context.blob === undefined || context.signature === undefined) return false
  return key.verify(context.blob, context.signature, context.hashAlgo) === true
}
