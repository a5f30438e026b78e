/** Rules for the names, slugs, addresses and permissions of projects. Pure; randomness is a parameter. */
import type { MemberRole } from '../http/operation.ts'
import { formatCidr, parseCidr } from '../../lib/cidr.ts'
import { isUuid } from '../../lib/ids.ts'

/**
 * Maximum length of a slug. Slugs become part of hostnames: `<app>-<slug>.<domain>`, where the first label has at most
 * 63 characters.
 */
const slugLength = 20

/** Converts a display name to a slug: "Jürgen's Shop" -> "jurgens-shop". Never returns an empty text or a UUID. */
export function slugify(text: string): string {
  const slug = text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f'’]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, slugLength)
    .replace(/^-+|(?<!-)-+$/g, '')
  return slug === '' || isUuid(slug) ? 'project' : slug
}

/** Returns an alternative for a slug that is taken: the slug with four random characters appended. */
export function nextSlug(base: string, random: Buffer): string {
  return `${base.slice(0, slugLength - 5).replace(/(?<!-)-+$/, '')}-${random.toString('hex').slice(0, 4)}`
}

/**
 * Returns a random /64 of the installation's IPv6 prefix, except the first /64, which the hosts use.
 * @param random 8 bytes
 */
export function subnetOf(prefix: string, random: Buffer): string {
  const network = parseCidr(prefix)
  if (network?.family !== 6 || network.prefix >= 64) throw new Error(`BUG: ${prefix} has no room for a project`)
  const subnets = 1n << BigInt(64 - network.prefix)
  const number = 1n + (random.readBigUInt64BE(0) % (subnets - 1n))
  return formatCidr({ family: 6, value: network.value | (number << 64n), prefix: 64 })
}
export const subnetRandomBytes = 8

const rank = { viewer: 0, member: 1, admin: 2, owner: 3 } as const satisfies Record<MemberRole, number>

export const atLeast = (role: MemberRole, wanted: MemberRole) => rank[role] >= rank[wanted]

/**
 * Returns whether a member with the role `actor` may manage members with these roles. Admins manage members and
 * viewers; only owners appoint, change or remove admins and owners.
 */
export function canManage(actor: MemberRole, roles: readonly MemberRole[]): boolean {
  return actor === 'owner' || (actor === 'admin' && roles.every(role => rank[role] < rank.admin))
}

export const invitationLifeMs = 7 * 24 * 3_600_000
export const maxProjectsPerAccount = 100
