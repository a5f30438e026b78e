/** Signatures and ids of webhook deliveries from git hosts. */
import { createHash, timingSafeEqual } from 'node:crypto'

export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export interface Delivery {
  /** Id of the delivery. The git host sends a repeated delivery with the same id. */
  readonly id: string
  /** Name of the event in the git host's headers, such as `push` or `Push Hook`. */
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
 * webhook deliveries). Gitea and Forgejo send this header, too, and another header that contains only the digest.
 * GitLab sends the secret itself as `X-Gitlab-Token`.
 * @returns the proof; undefined if there is no well-formed header, so that the caller neither looks up an app nor
 * hashes the body
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
 * Verifies the proof. Hashes the body in the thread pool, because a body of 1 MiB takes milliseconds, during which the
 * event loop would handle no other requests.
 */
export async function isSigned(secret: string, raw: Buffer, proof: Proof): Promise<boolean> {
  // Refuse an empty secret, because anyone can sign with it.
  if (secret === '') return false
  if (proof.kind === 'secret') return equal(proof.secret, secret)
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', Buffer.from(secret), algorithm, false, ['verify'])
  // Copy the body, because a Buffer's type allows shared memory, which `verify` does not accept.
  return crypto.subtle.verify('HMAC', key, new Uint8Array(proof.digest), new Uint8Array(raw))
}

/** Compares two secrets in constant time, by comparing their hashes. */
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
  // A git host that sends no delivery id repeats a delivery with the same bytes, so the hash of the body is the id.
  const known = id ?? createHash('sha256').update(`${event}\n`).update(raw).digest('hex')
  return { id: known.slice(0, 200), event, style: hub === undefined ? 'gitlab' : 'github' }
}
