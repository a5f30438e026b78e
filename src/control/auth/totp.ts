/** One-time passwords: TOTP (RFC 6238) as every authenticator speaks it, and recovery codes. */
import { randomBytes } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'

export const issuer = 'Mote'
const periodSeconds = 30
/** RFC 4226, section 4, R6: 160 bits recommended. */
const secretBytes = 20

/** 6 digits, SHA-1, 30 s: what authenticators implement whatever the URL says. */
const totp = (secret: string, label = '') =>
  new TOTP({ issuer, label, secret: Secret.fromBase32(secret), algorithm: 'SHA1', digits: 6, period: periodSeconds })

/** Base32 without padding. */
export const newTotpSecret = () => new Secret({ buffer: Uint8Array.from(randomBytes(secretBytes)).buffer }).base32

export const otpauthUrl = (secret: string, email: string) => totp(secret, email).toString()

export const qrCode = async (url: string): Promise<string> => {
  const { default: library } = await import('qrcode')
  return library.toDataURL(url, { errorCorrectionLevel: 'M', margin: 2 })
}

/** The time step the code belongs to, within one step of `now` either way; undefined when it belongs to none. */
export function matchingStep(secret: string, code: string, now: Date): number | undefined {
  const delta = totp(secret).validate({ token: code, timestamp: now.getTime(), window: 1 })
  return delta === null ? undefined : Math.floor(now.getTime() / 1000 / periodSeconds) + delta
}

/** Six digits, however they were spaced; undefined when it is something else (a recovery code). */
export function totpCode(text: string): string | undefined {
  const digits = text.replace(/[\s-]/g, '')
  return /^\d{6}$/.test(digits) ? digits : undefined
}

const recoveryCodeCount = 10
// Crockford's base 32: without the letters that people take for digits.
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

/** Ten codes of 80 bits: `xxxx-xxxx-xxxx-xxxx`. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodeCount }, () =>
    [...randomBytes(16)]
      .map(byte => alphabet.charAt(byte & 31))
      .join('')
      .replace(/(.{4})(?=.)/g, '$1-'),
  )
}

/** What of a recovery code is hashed: case and separators do not matter. */
export const normaliseRecoveryCode = (text: string) => text.toLowerCase().replace(/[^a-z0-9]/g, '')
