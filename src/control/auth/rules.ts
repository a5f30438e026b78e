/** Rules of identity: formats of e-mail addresses, passwords and tokens, and delays after failures. Pure. */
import type { Scope } from '../http/operation.ts'
import { includedScopes } from '../http/scopes.ts'
import { isCommonPassword } from './common-passwords.ts'

/** Case-folded, so that one e-mail address in different spellings belongs to one account. */
export const normaliseEmail = (text: string) => text.trim().toLowerCase()

export const passwordLength = { min: 8, max: 128 } as const

/** Returns why a password is refused, or undefined. No composition rules (ASVS 5.0, 6.2.5); never truncated (6.2.8). */
export function passwordFault(password: string, about: { readonly email: string }): string | undefined {
  const length = [...password].length
  if (length < passwordLength.min) return `must have at least ${passwordLength.min} characters`
  if (length > passwordLength.max) return `must have at most ${passwordLength.max} characters`
  const [local = ''] = about.email.split('@')
  const folded = password.toLowerCase()
  if (folded === about.email || folded === local) return 'must not be your e-mail address'
  return isCommonPassword(password) ? 'is a commonly used password; choose another' : undefined
}

const isScope = (text: string): text is Scope => Object.hasOwn(includedScopes, text)

/** Returns the stored scopes with all scopes that they include. */
export function expandScopes(stored: readonly string[]): ReadonlySet<Scope> {
  return new Set(stored.filter(isScope).flatMap(scope => includedScopes[scope]))
}

/**
 * Failures without a delay, to allow for typing errors: per e-mail and IP address (pair), per IP address, which many
 * people may share, and per account from all IP addresses (which limits how long an attacker can lock out its owner).
 */
export const freeFailures = { pair: 5, address: 50, account: 100 } as const
const longestBlockMs = 15 * 60_000

/** Delay before the next attempt after `failures` in a row: 2 s, doubled each time, at most 15 minutes. */
export function backoffMs(failures: number, free: number): number {
  return failures < free ? 0 : Math.min(longestBlockMs, 1000 * 2 ** Math.min(20, failures - free + 1))
}

/** Failures expire after this time without another one. */
export const backoffMemoryMs = 60 * 60_000

/** Maximum age of a sign-in for weakening an account without entering a password or code again. */
export const recentLoginMs = 10 * 60_000

export const captchaLifeMs = 5 * 60_000
export const maxTokensPerAccount = 100
