import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'

const derive = promisify(pbkdf2)

/**
 * Computes the SCRAM-SHA-256 verifier (RFC 5802, RFC 7677) in the format of `ALTER ROLE ... PASSWORD`. The VM gets only
 * this; it can verify the password but not replace it. SASLprep does not change the ASCII passwords that we generate.
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16), iterations = 4096) {
  const salted = await derive(password, salt, iterations, 32, 'sha256')
  const hmac = (text: string) => createHmac('sha256', salted).update(text).digest()
  const storedKey = createHash('sha256').update(hmac('Client Key')).digest('base64')
  const serverKey = hmac('Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}
