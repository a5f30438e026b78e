/**
 * Tokens for the installation's own registry, for the token authentication of the registry program (distribution): a
 * JWT that lists the permitted actions. The registry verifies its signature with a certificate.
 */
import { createECDH, createHash, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSigner } from 'fast-jwt'
import { newId } from '../../lib/ids.ts'
import type { Vault } from '../../lib/vault.ts'
import { certificateOf } from './certificate.ts'

export const tokenIssuer = 'mote'
export const tokenService = 'mote-registry'
export const tokenSeconds = 300

export type RegistryAction = 'pull' | 'push' | 'delete'

export interface RegistryGrant {
  readonly type: 'repository'
  readonly name: string
  readonly actions: readonly RegistryAction[]
}

const curve = 'prime256v1'

/** Derives a key pair from the installation's secret, so that every control plane has the same one. */
function keyOf(seed: Buffer): KeyObject {
  const pair = createECDH(curve)
  for (let d = seed; ; d = createHash('sha256').update(d).digest())
    try {
      pair.setPrivateKey(d)
      break
    } catch {
      // About one of 4 billion seeds is too large to be a private key of the curve; then the loop derives the next
      // seed.
    }
  const point = pair.getPublicKey()
  const text = (bytes: Buffer) => bytes.toString('base64url')
  const [x, y] = [text(point.subarray(1, 33)), text(point.subarray(33))]
  const d = text(Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()]).subarray(-32))
  return createPrivateKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y, d } })
}

const keysOf = (vault: Vault) => vault.signingKeys('registry.token').map(({ key }) => keyOf(key))

/** The certificates and secret that the registry is configured with, derived from the installation's secret. */
export interface RegistryTrust {
  /** Certificates of all keys with which tokens may be signed, in PEM. */
  readonly certificates: string
  /**
   * Secret with which the registry signs the state of an upload. All registries that share one storage must have the
   * same secret.
   */
  readonly uploadSecret: string
}

export function registryTrust(vault: Vault): RegistryTrust {
  const certificates = keysOf(vault).map(key =>
    new X509Certificate(certificateOf(tokenIssuer, tokenIssuer, key)).toString(),
  )
  return { certificates: certificates.join(''), uploadSecret: vault.hash('registry.upload', '').toString('hex') }
}

export type SignToken = (subject: string, access: readonly RegistryGrant[], now: Date) => string

export function tokenSigner(vault: Vault): SignToken {
  const [key] = keysOf(vault)
  if (!key) throw new Error('BUG: the vault has no signing key')
  const pem = key.export({ format: 'pem', type: 'pkcs8' }).toString()
  // The subject differs from that of the root certificate for the same key, because Go treats two certificates with the
  // same subject and key as one, even if their signatures differ.
  const x5c = [certificateOf('mote-token', tokenIssuer, key).toString('base64')]
  const sign = createSigner({ algorithm: 'ES256', key: pem, header: { alg: 'ES256', typ: 'JWT', x5c } })
  return (sub, access, now) => {
    const iat = Math.floor(now.getTime() / 1000)
    // Begin the token's validity in the past, because the registry's clock may be slightly behind.
    const times = { iat, nbf: iat - 60, exp: iat + tokenSeconds }
    return sign({ iss: tokenIssuer, aud: tokenService, sub, jti: newId(), ...times, access })
  }
}

export interface WantedAccess {
  readonly name: string
  readonly project: string
  readonly actions: readonly RegistryAction[]
}

const known: readonly string[] = ['pull', 'push', 'delete'] satisfies readonly RegistryAction[]
const isAction = (text: string): text is RegistryAction => known.includes(text)
/**
 * A repository name in distribution's grammar, which begins with a project's slug, or with the path of built images
 * (which is not a valid slug).
 */
const repository = /^([a-z0-9][a-z0-9.-]*)\/[a-z0-9]+(?:(?:[._]|__|-+|\/)[a-z0-9]+)*$/
/** Maximum number of scopes per request; no client needs more. */
const mostScopes = 20

/**
 * Parses scopes of the form `repository:<project>/<name>:<action>,...`. Scopes of any other form are ignored, and so
 * never granted.
 */
export function wantedAccess(scopes: readonly string[]): WantedAccess[] {
  const all = scopes.flatMap(text => text.split(' ')).slice(0, mostScopes)
  return all.flatMap(scope => {
    const [, name = '', actions = ''] = /^repository:([^:]+):([a-z,*]+)$/.exec(scope) ?? []
    const project = name.length <= 255 ? repository.exec(name)?.[1] : undefined
    return project === undefined ? [] : [{ name, project, actions: actions.split(',').filter(isAction) }]
  })
}
