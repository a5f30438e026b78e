/** Creates secrets for users. Only their keyed hashes are stored (contract, "Auth"). */
import { randomBytes } from 'node:crypto'

export const patPrefix = 'svc_pat_'
export const refreshPrefix = 'svc_rt_'
export const linkPrefix = 'svc_link_'

/** Returns 256 random bits in base64url: 43 characters. */
const secret = () => randomBytes(32).toString('base64url')

export const newPat = () => patPrefix + secret()
export const newRefreshToken = () => refreshPrefix + secret()
/** Encodes derived bits as a refresh token. @param bits 32 bytes that nobody without the vault can compute */
export const derivedRefreshToken = (bits: Buffer) => refreshPrefix + bits.toString('base64url')
export const newLinkToken = () => linkPrefix + secret()

/** Purposes for hashing and encryption in the vault. A purpose is part of the stored data, so it must never change. */
export const purposes = {
  pat: 'pat',
  refreshToken: 'refresh-token',
  nextRefreshToken: 'next-refresh-token',
  captcha: 'captcha',
  recoveryCode: 'recovery-code',
  backoff: 'login-backoff',
  totpSecret: 'totp-secret',
  session: 'session',
  emailLink: 'email-link',
} as const

const credentialPattern = /^svc_(?:pat|rt)_[A-Za-z0-9_-]{43}$/

/**
 * Returns whether the text has the form of an issued credential. For other texts, the hash and the query are skipped.
 */
export const looksIssued = (token: string, prefix: string) => token.startsWith(prefix) && credentialPattern.test(token)
