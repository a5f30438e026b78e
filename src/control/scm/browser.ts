/**
 * Ties the installation of the integration to the browser that started it (RFC 6749, 10.12; OWASP, "OAuth 2.0 cheat
 * sheet", state). Otherwise a victim who opens an attacker's link could bind their installation to the attacker's
 * project.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { minutes } from '../../lib/duration.ts'
import type { Headers } from './signature.ts'

const path = '/v1/scm/callback'
const isSecure = (publicUrl: string) => publicUrl.startsWith('https:')
const nameOf = (publicUrl: string) => (isSecure(publicUrl) ? '__Secure-mote-install' : 'mote-install')

export interface BrowserMark {
  /** `Set-Cookie` header; the browser sends the cookie only to the callback of the installation. */
  readonly cookie: string
  /** Hash of the cookie's value. The signed state contains this hash. */
  readonly hash: string
}

export function markBrowser(publicUrl: string): BrowserMark {
  const value = randomBytes(32).toString('base64url')
  return { cookie: cookieText(publicUrl, value, minutes(30) / 1000), hash: hashOf(value) }
}

/** `Set-Cookie` header that removes the cookie. */
export const forgetBrowser = (publicUrl: string) => cookieText(publicUrl, '', 0)

/** Returns whether the request has a cookie whose value has this hash. */
export function isBrowser(publicUrl: string, { cookie }: Headers, hash: string): boolean {
  const wanted = `${nameOf(publicUrl)}=`
  const pairs = typeof cookie === 'string' ? cookie.split(';').map(pair => pair.trim()) : []
  return pairs.filter(pair => pair.startsWith(wanted)).some(pair => equal(hashOf(pair.slice(wanted.length)), hash))
}

const hashOf = (value: string) => createHash('sha256').update(value).digest('base64url')
const equal = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))

// `SameSite=Lax`, because the browser reaches the callback by a navigation from the source host's site.
const cookieText = (publicUrl: string, value: string, maxAgeSeconds: number) =>
  [
    ...[`${nameOf(publicUrl)}=${value}`, `Path=${path}`, `Max-Age=${maxAgeSeconds}`, 'HttpOnly', 'SameSite=Lax'],
    ...(isSecure(publicUrl) ? ['Secure'] : []),
  ].join('; ')
