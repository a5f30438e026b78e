/** Rules of identity: formats of e-mail addresses, passwords and tokens, and delays after failures. Pure. */
import type { Scope } from '../http/operation.ts'
import { includedScopes } from '../http/scopes.ts'
import { isCommonPassword } from './common-passwords.ts'

/** Converts an e-mail address to lower case, so that one address in different spellings belongs to one account. */
export const normaliseEmail = (text: string) => text.trim().toLowerCase()

export const passwordLength = { min: 8, max: 128 } as const

/**
 * Returns why a password is refused; undefined if it is allowed. There are no composition rules (ASVS 5.0, 6.2.5), and
 * the password is never truncated (6.2.8).
 */
export function passwordFault(password: string, about: { readonly email: string }): string | undefined {
  const length = [...password].length
  if (length < passwordLength.min) return `must have at least ${passwordLength.min} characters`
  if (length > passwordLength.max) return `must have at most ${passwordLength.max} characters`
  const [local = ''] = about.email.split('@')
  const folded = password.toLowerCase()
  if (folded === about.email || folded === local) return 'must not be your e-mail address or its part before the @'
  return isCommonPassword(password) ? 'is a commonly used password; choose another' : undefined
}

const isScope = (text: string): text is Scope => Object.hasOwn(includedScopes, text)

/** Returns the stored scopes of a token, and all scopes that they include. */
export function expandScopes(stored: readonly string[]): ReadonlySet<Scope> {
  return new Set(stored.filter(isScope).flatMap(scope => includedScopes[scope]))
}

/**
 * Number of failed sign-ins before the first delay, to allow for typing errors: per e-mail address and IP address
 * (pair); per IP address, which many people may share; and per account from all IP addresses, which is high, so that an
 * attacker cannot easily lock out its owner.
 */
export const freeFailures = { pair: 5, address: 50, account: 100 } as const
const longestBlockMs = 15 * 60_000

/** Delay before the next sign-in attempt after `failures` in a row: 2 s, doubled each time, at most 15 minutes. */
export function backoffMs(failures: number, free: number): number {
  return failures < free ? 0 : Math.min(longestBlockMs, 1000 * 2 ** Math.min(20, failures - free + 1))
}

/** Failed sign-ins are forgotten this time after the last one. */
export const backoffMemoryMs = 60 * 60_000

/** Maximum age of a sign-in with which a user may weaken an account without entering a password or code again. */
export const recentLoginMs = 10 * 60_000

export const captchaLifeMs = 5 * 60_000
export const maxTokensPerAccount = 100
