/** Secrets that are handed out and recognised again: made here, stored only as a keyed hash (contract, "Auth"). */
import { randomBytes } from 'node:crypto'

export const patPrefix = 'svc_pat_'
export const refreshPrefix = 'svc_rt_'
export const linkPrefix = 'svc_link_'

/** 256 random bits in base64url: 43 characters. */
const secret = () => randomBytes(32).toString('base64url')

export const newPat = () => patPrefix + secret()
export const newRefreshToken = () => refreshPrefix + secret()
export const newLinkToken = () => linkPrefix + secret()

/** Purposes under which the vault hashes and seals; a purpose is part of the stored data, so it must never change. */
export const purposes = {
  pat: 'pat',
  refreshToken: 'refresh-token',
  captcha: 'captcha',
  recoveryCode: 'recovery-code',
  backoff: 'login-backoff',
  totpSecret: 'totp-secret',
  session: 'session',
  emailLink: 'email-link',
} as const

const credentialPattern = /^svc_(?:pat|rt)_[A-Za-z0-9_-]{43}$/

/** Whether it can be one of ours at all; spares the hash and the query. */
export const looksIssued = (token: string, prefix: string) => token.startsWith(prefix) && credentialPattern.test(token)
