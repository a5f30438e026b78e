/**
 * A proof of work for text captchas: a program can read the question as easily as a screen reader, so a registration
 * with it costs about a second of processor time instead. PBKDF2 costs a browser (Web Crypto) as much as any other
 * client.
 */
import { pbkdf2 } from 'node:crypto'
import { promisify } from 'node:util'

const derive = promisify(pbkdf2)

/**
 * Parameters of the proof of work: a client needs about 256 hashes of 2.5 ms each on average; the check of a proof
 * needs one.
 */
export const captchaWork = { iterations: 5000, bits: 8 } as const

const salt = 'mote-captcha'

/** Whether PBKDF2-HMAC-SHA-256 of `<captcha id>:<proof>` starts with at least `bits` zero bits. */
export async function isWorked(id: string, proof: string, bits: number): Promise<boolean> {
  const hash = await derive(`${id}:${proof}`, salt, captchaWork.iterations, 32, 'sha256')
  return zeroBits(hash) >= bits
}

/** Returns the number of leading zero bits. */
export function zeroBits(hash: Uint8Array): number {
  let count = 0
  for (const byte of hash) {
    if (byte !== 0) return count + Math.clz32(byte) - 24
    count += 8
  }
  return count
}
