import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'

/**
 * The operations that need the installation's secret. A separate key is derived for each purpose (HKDF-SHA-256, RFC
 * 5869). For key rotation, several secrets may be given: the first one encrypts and signs, all of them decrypt and
 * verify.
 */
export interface Vault {
  /**
   * Encrypts a text with AES-256-GCM (NIST SP 800-38D), bound to `purpose`. Layout of the result (the "box") in bytes:
   * version 1, key id 4, nonce 12, tag 16, ciphertext.
   */
  seal(purpose: string, plain: string): Buffer
  /** Decrypts a box. @throws Error when the box was modified, belongs to another purpose, or its key is unknown */
  open(purpose: string, box: Buffer): string
  /** Returns whether the box was encrypted with the current key. If not, the text should be encrypted again. */
  isCurrent(box: Buffer): boolean
  /**
   * Returns the HMAC-SHA-256 (32 bytes) of a value that is stored only for comparison, such as a token or a captcha
   * solution.
   */
  hash(purpose: string, value: string): Buffer
  /** Returns the signing keys for a purpose with their ids, current key first. */
  signingKeys(purpose: string): readonly { readonly kid: string; readonly key: Buffer }[]
}

/** Creates a vault. @param secrets each with at least 32 characters, current one first */
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
      if (box[0] !== 1 || !ring)
        throw new Error('encrypted with a secret that is not configured; add that secret to MOTE_SECRET_KEYS')
      const decipher = createDecipheriv('aes-256-gcm', ring.key(`seal:${purpose}`), box.subarray(5, 17))
      decipher.setAuthTag(box.subarray(17, 33))
      return Buffer.concat([decipher.update(box.subarray(33)), decipher.final()]).toString('utf8')
    },
    isCurrent: box => box[0] === 1 && current.id.equals(box.subarray(1, 5)),
    // Use the oldest secret: a rotation must not invalidate hashes, because these cannot be computed again from stored
    // data.
    hash: (purpose, value) =>
      createHmac('sha256', rings.at(-1)!.key(`hash:${purpose}`))
        .update(value)
        .digest(),
    signingKeys: purpose => rings.map(ring => ({ kid: ring.id.toString('hex'), key: ring.key(`sign:${purpose}`) })),
  }
}
