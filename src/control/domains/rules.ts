/** Rules for custom domains: allowed names and the schedule of DNS checks. Pure functions. */
import { domainToASCII } from 'node:url'
import { days, hours, minutes, seconds } from '../../lib/duration.ts'
import { invalidField } from '../http/errors.ts'
import type { DomainState } from './store.ts'

/** First label of the TXT record's name, which is `<label>.<domain name>`. */
export const challengeLabel = '_mote-challenge'
export const recordName = (name: string) => `${challengeLabel}.${name}`
export const recordValue = (token: string) => `mote-verification=${token}`

export const mostDomains = 50
/** Maximum length of a domain name (RFC 1035, 2.3.4), less the label in front of it in the TXT record's name. */
const longestName = 253 - challengeLabel.length - 1
const label = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * Checks a domain name and returns it normalized: ASCII, lower case, no final dot.
 * @param reserved domains of the installation, which are refused with all their subdomains
 * @throws ApiError 400
 */
export function checkDomainName(text: string, reserved: readonly string[]): string {
  const fault = (why: string) => invalidField('name', why)
  if (text.includes('*')) throw fault('must be one name; wildcards cannot be routed')
  const name = domainToASCII(text.trim().replace(/\.$/, '')).toLowerCase()
  const labels = name.split('.')
  if (labels.length < 2 || !labels.every(one => label.test(one)) || /^\d+$/.test(labels.at(-1) ?? ''))
    throw fault('must be a domain name such as www.example.com')
  if (name.length > longestName) throw fault(`must have at most ${longestName} characters`)
  const taken = reserved.find(own => name === own || name.endsWith(`.${own}`))
  if (taken !== undefined) throw fault(`${taken} belongs to this installation; use a domain of your own`)
  return name
}

/** Result of a DNS check. `unclear`: the name servers did not respond, so the record may or may not exist. */
export type Found =
  | { readonly kind: 'proven' }
  | { readonly kind: 'missing'; readonly message: string }
  | { readonly kind: 'unclear'; readonly message: string }

export interface Watched {
  readonly state: DomainState
  readonly misses: number
  readonly createdAt: Date
}

export interface Decision {
  readonly state: DomainState
  readonly misses: number
  readonly message: string | null
  readonly nextCheckMs: number
}

/**
 * Number of failed DNS checks in a row after which a domain is lost. A single failure must not take a site down: the
 * record may be missing for a short time (a zone transfer, a typo).
 */
const missesUntilLost = 3
const watchMs = hours(6)
const doubtMs = minutes(10)

/** Returns the state of a domain after a DNS check, and the delay until the next check. */
export function decide(domain: Watched, found: Found, now: Date): Decision {
  if (found.kind === 'proven') return { state: 'verified', misses: 0, message: null, nextCheckMs: watchMs }
  const { message } = found
  if (domain.state !== 'verified') return { ...domain, message, nextCheckMs: patience(domain.createdAt, now) }
  if (found.kind === 'unclear') return { ...domain, message, nextCheckMs: doubtMs }
  const misses = domain.misses + 1
  return { state: misses >= missesUntilLost ? 'lost' : 'verified', misses, message, nextCheckMs: doubtMs }
}

/**
 * Returns the delay until the next DNS check of a domain that is not verified. The delay grows with the domain's age.
 */
function patience(createdAt: Date, now: Date): number {
  const ageMs = now.getTime() - createdAt.getTime()
  if (ageMs > days(14)) return days(1)
  return Math.min(Math.max(ageMs / 4, seconds(15)), hours(1))
}
