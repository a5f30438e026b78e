/** One-time passwords: TOTP (RFC 6238) with the parameters that every authenticator supports, and recovery codes. */
import { randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'

export const issuer = 'Mote'
const periodSeconds = 30
/** Size of a TOTP secret: the 160 bits that RFC 4226 recommends (section 4, R6). */
const secretBytes = 20

/**
 * Codes have 6 digits and a period of 30 s, and use SHA-1: authenticators use these parameters whatever the URL
 * contains.
 */
const totp = (secret: string, label = '') =>
  new TOTP({ issuer, label, secret: Secret.fromBase32(secret), algorithm: 'SHA1', digits: 6, period: periodSeconds })

/** Returns a new secret in base32 without padding. */
export const newTotpSecret = () => new Secret({ buffer: Uint8Array.from(randomBytes(secretBytes)).buffer }).base32

export const otpauthUrl = (secret: string, email: string) => totp(secret, email).toString()

export const qrCode = async (url: string): Promise<string> => {
  const { default: library } = await import('qrcode')
  return library.toDataURL(url, { errorCorrectionLevel: 'M', margin: 2 })
}

/** Returns the time step of the code, which may differ from that of `now` by one; undefined if the code is invalid. */
export function matchingStep(secret: string, code: string, now: Date): number | undefined {
  const delta = totp(secret).validate({ token: code, timestamp: now.getTime(), window: 1 })
  return delta === null ? undefined : Math.floor(now.getTime() / 1000 / periodSeconds) + delta
}

/**
 * Returns the six digits of an authenticator's code, without spaces and dashes; undefined for any other text, such as a
 * recovery code.
 */
export function totpCode(text: string): string | undefined {
  const digits = text.replace(/[\s-]/g, '')
  return /^\d{6}$/.test(digits) ? digits : undefined
}

const recoveryCodeCount = 10
// Crockford's base 32, which has no letters that look like digits.
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** Returns ten recovery codes of 80 bits each: `xxxx-xxxx-xxxx-xxxx`. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodeCount }, () =>
    [...randomBytes(16)]
      .map(byte => alphabet.charAt(byte & 31))
      .join('')
      .replace(/(.{4})(?=.)/g, '$1-'),
  )
}

/** Normalizes a recovery code for hashing: case and separators are ignored. */
export const normaliseRecoveryCode = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '')
