/**
 * Session tokens: JWT (RFC 7519) with HS256 only. The header of a token must equal, byte for byte, a header that we
 * issue for a live key, so `alg`, `jku` and other members of a forged header are never interpreted (RFC 8725, 3.1).
 */
import { hash } from 'node:crypto'
import { createSigner, createVerifier } from 'fast-jwt'
import type { Clock } from '../../lib/clock.ts'
import type { Vault } from '../../lib/vault.ts'
import { isUuid } from '../../lib/ids.ts'
import { createGenerationalCache } from '../../lib/generational-cache.ts'
import { purposes } from './credentials.ts'

export interface SessionClaims {
  readonly userId: string
  readonly sessionId: string
  readonly epoch: number
}

export interface VerifiedClaims extends SessionClaims {
  readonly expiresAt: Date
}

export interface SessionTokens {
  /** Issues a session token that is valid for `ttlSeconds`. @param claims of the session */
  sign(claims: SessionClaims): string
  /** Returns the claims of a session token; undefined unless its signature and its times are valid. */
  verify(token: string): VerifiedClaims | undefined
}

const issuer = 'mote'
const audience = 'mote-api'
const type = 'session'
/** Tolerated clock difference between control planes. */
const leewaySeconds = 5

/**
 * Maximum number of cached tokens with a verified signature. The key is a hash of the whole token; each entry needs
 * about 300 bytes.
 */
const mostKnown = 10_000

const headerOf = (token: string) => token.slice(0, token.indexOf('.'))

export function createSessionTokens(options: { vault: Vault; clock: Clock; ttlSeconds: number }): SessionTokens {
  const { clock, ttlSeconds } = options
  const keys = options.vault.signingKeys(purposes.session)
  const signers = keys.map(({ kid, key }) => createSigner({ algorithm: 'HS256', key, kid }))
  const sign = signers[0]
  if (!sign) throw new Error('BUG: the vault has no signing key')
  const verifiers = new Map(
    keys.map(({ key }, i) => [
      headerOf(signers[i]?.({}) ?? ''),
      // `verify` checks the token's times below, with the clock of the control plane.
      createVerifier({ key, algorithms: ['HS256'], allowedIss: issuer, allowedAud: audience, ignoreExpiration: true }),
    ]),
  )
  const known = createGenerationalCache<Signed>(mostKnown)
  const nowSeconds = () => Math.floor(clock.now().getTime() / 1000)
  return {
    sign({ userId, sessionId, epoch }) {
      const iat = nowSeconds()
      return sign({
        sub: userId,
        sid: sessionId,
        epoch,
        iat,
        exp: iat + ttlSeconds,
        iss: issuer,
        aud: audience,
        typ: type,
      })
    },
    verify(token) {
      // The signature of a cached token was verified earlier for the same bytes; only the token's times must be checked
      // again.
      const key = hash('sha256', token, 'base64')
      const signed = known.get(key) ?? signedBy(verifiers.get(headerOf(token)), token)
      if (!signed) return undefined
      known.set(key, signed)
      const now = nowSeconds()
      return signed.exp <= now || signed.iat > now + leewaySeconds ? undefined : signed.claims
    },
  }
}

interface Signed {
  readonly claims: VerifiedClaims
  /** Time in seconds since 1970. */
  readonly iat: number
  readonly exp: number
}

function signedBy(verifier: ((token: string) => unknown) | undefined, token: string): Signed | undefined {
  try {
    return verifier && signedOf(verifier(token))
  } catch {
    return undefined
  }
}

function signedOf(payload: unknown): Signed | undefined {
  if (typeof payload !== 'object' || payload === null) return undefined
  const { sub, sid, epoch, iat, exp, typ } = payload as Record<string, unknown>
  if (typ !== type || typeof exp !== 'number' || typeof iat !== 'number' || typeof epoch !== 'number') return undefined
  if (!Number.isInteger(epoch)) return undefined
  if (typeof sub !== 'string' || typeof sid !== 'string' || !isUuid(sub) || !isUuid(sid)) return undefined
  return { claims: { userId: sub, sessionId: sid, epoch, expiresAt: new Date(exp * 1000) }, iat, exp }
}
