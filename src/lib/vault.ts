import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'

/**
 * All operations that need the installation's secret. Keys are derived from it per purpose (HKDF-SHA-256, RFC 5869), so
 * that no key has two uses. For key rotation several secrets may be given: the first one encrypts and signs, all of
 * them decrypt and verify.
 */
export interface Vault {
  /**
   * Encrypts with AES-256-GCM (NIST SP 800-38D), bound to `purpose`. Layout: version 1, key id 4, nonce 12, tag 16,
   * ciphertext.
   */
  seal(purpose: string, plain: string): Buffer
  /** @throws Error when the box was modified, belongs to another purpose, or its key is unknown. */
  open(purpose: string, box: Buffer): string
  /** True if the box was sealed with the current key; false if it is due for re-encryption. */
  isCurrent(box: Buffer): boolean
  /** HMAC-SHA-256 of values that are stored only for comparison: tokens, captcha answers. 32 bytes. */
  hash(purpose: string, value: string): Buffer
  /** Signing keys of a purpose by key id, current one first. */
  signingKeys(purpose: string): readonly { readonly kid: string; readonly key: Buffer }[]
}

/** @param secrets each at least 32 characters, the current one first. */
export function createVault(secrets: readonly string[]): Vault {
  if (secrets.length === 0) throw new Error('BUG: a vault needs at least one secret')
  const rings = secrets.map(secret => {
    const derived = new Map<string, Buffer>()
    const key = (purpose: string): Buffer => {
      let found = derived.get(purpose)
      if (!found) {
        found = Buffer.from(hkdfSync('sha256', secret, 'mote', purpose, 32))
        derived.set(purpose, found)
      }
      return found
    }
    return { id: key('key-id').subarray(0, 4), key }
  })
  const current = rings[0]!
  return {
    seal(purpose, plain) {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', current.key(`seal:${purpose}`), nonce)
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.of(1), current.id, nonce, cipher.getAuthTag(), body])
    },
    open(purpose, box) {
      const ring = rings.find(r => r.id.equals(box.subarray(1, 5)))
      if (box[0] !== 1 || !ring) throw new Error('sealed with a key that is not configured; add it to MOTE_SECRET_KEYS')
      const decipher = createDecipheriv('aes-256-gcm', ring.key(`seal:${purpose}`), box.subarray(5, 17))
      decipher.setAuthTag(box.subarray(17, 33))
      return Buffer.concat([decipher.update(box.subarray(33)), decipher.final()]).toString('utf8')
    },
    isCurrent: box => box[0] === 1 && current.id.equals(box.subarray(1, 5)),
    // Hashes use the oldest secret: they cannot be recomputed, so a rotation must not invalidate them.
    hash: (purpose, value) =>
      createHmac('sha256', rings.at(-1)!.key(`hash:${purpose}`))
        .update(value)
        .digest(),
    signingKeys: purpose => rings.map(ring => ({ kid: ring.id.toString('hex'), key: ring.key(`sign:${purpose}`) })),
  }
}
