/** Signatures and ids of webhook deliveries from git hosts. */
import { createHash, timingSafeEqual } from 'node:crypto'

export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export interface Delivery {
  /** Id of the delivery; the same when it is repeated. */
  readonly id: string
  /** The host's name of the event, such as `push` or `Push Hook`. */
  readonly event: string
  readonly style: 'github' | 'gitlab'
}

const text = (headers: Headers, name: string): string | undefined => {
  const value = headers[name]
  return typeof value === 'string' && value !== '' && value.length <= 1024 ? value : undefined
}

/** What proves that a delivery is authentic: an HMAC made with the secret, or the secret itself. */
export type Proof =
  | { readonly kind: 'digest'; readonly digest: Buffer }
  | { readonly kind: 'secret'; readonly secret: string }

/**
 * Extracts the proof from the headers. GitHub signs `X-Hub-Signature-256: sha256=<hex>` (docs.github.com, validating
 * webhook deliveries). Gitea and Forgejo send that header, too, and another one with the digest alone. GitLab sends the
 * secret itself as `X-Gitlab-Token`.
 * @returns undefined without a well-formed header, so that nothing is looked up or hashed
 */
export function proofOf(headers: Headers): Proof | undefined {
  const hub = text(headers, 'x-hub-signature-256')
  if (hub !== undefined) return hub.startsWith('sha256=') ? digestProof(hub.slice('sha256='.length)) : undefined
  const plain = text(headers, 'x-gitea-signature') ?? text(headers, 'x-forgejo-signature')
  if (plain !== undefined) return digestProof(plain)
  const secret = text(headers, 'x-gitlab-token')
  return secret === undefined ? undefined : { kind: 'secret', secret }
}

const digestProof = (hex: string): Proof | undefined =>
  /^[0-9a-f]{64}$/.test(hex) ? { kind: 'digest', digest: Buffer.from(hex, 'hex') } : undefined

/**
 * Verifies the proof. Hashing runs in the thread pool: a body of 1 MiB takes milliseconds, which would delay other
 * requests.
 */
export async function isSigned(secret: string, raw: Buffer, proof: Proof): Promise<boolean> {
  // Anyone can sign with an empty key.
  if (secret === '') return false
  if (proof.kind === 'secret') return equal(proof.secret, secret)
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify'])
  // Copied, because a Buffer's type allows shared memory, which `verify` does not accept.
  return crypto.subtle.verify('HMAC', key, new Uint8Array(proof.digest), new Uint8Array(raw))
}

/** Compares in constant time, by comparing hashes. */
function equal(given: string, wanted: string): boolean {
  const hash = (value: string) => createHash('sha256').update(value).digest()
  return timingSafeEqual(hash(given), hash(wanted))
}

/** Returns id and event of the delivery; undefined if no header names the event. */
export function describeDelivery(raw: Buffer, headers: Headers): Delivery | undefined {
  const hub = text(headers, 'x-github-event') ?? text(headers, 'x-gitea-event') ?? text(headers, 'x-forgejo-event')
  const lab = text(headers, 'x-gitlab-event')
  const event = hub ?? lab
  if (event === undefined) return undefined
  const names = [
    'x-github-delivery',
    'x-gitea-delivery',
    'x-forgejo-delivery',
    'idempotency-key',
    'x-gitlab-event-uuid',
  ]
  const id = names.map(name => text(headers, name)).find(value => value !== undefined)
  // A host without delivery ids repeats the same bytes, so their hash is the id.
  const known = id ?? createHash('sha256').update(`${event}\n`).update(raw).digest('hex')
  return { id: known.slice(0, 200), event, style: hub === undefined ? 'gitlab' : 'github' }
}
