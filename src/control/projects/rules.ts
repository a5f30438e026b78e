/** Names, slugs, addresses and who may do what in a project. Pure but for randomness, which is a parameter. */
import type { MemberRole } from '../http/operation.ts'
import { isUuid } from '../../lib/ids.ts'

/** Slugs become part of host names (`<app>-<slug>.<domain>`, one label of at most 63 characters). */
const slugLength = 20

/** What people call their thing, as a slug: "Jürgen's Shop" -> "jurgens-shop". Never empty, never a UUID. */
export function slugify(text: string): string {
  const slug = text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f'’]/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, slugLength)
    .replace(/^-+|-+$/g, '')
  return slug === '' || isUuid(slug) ? 'project' : slug
}

/** Another one when the first is taken: four random characters after it. */
export function nextSlug(base: string, random: Buffer): string {
  return `${base.slice(0, slugLength - 5).replace(/-+$/, '')}-${random.toString('hex').slice(0, 4)}`
}

/** A /64 in fd00::/8 (RFC 4193: 40 random bits of global id), with a subnet of 16 more: `fdxx:xxxx:xxxx:n::/64`. */
export function ulaPrefix(random: Buffer): string {
  const group = (at: number) => random.readUInt16BE(at).toString(16)
  const first = (0xfd00 | random.readUInt8(0)).toString(16)
  return `${first}:${group(1)}:${group(3)}:${group(5)}::/64`
}
export const ulaRandomBytes = 7

const rank = { viewer: 0, member: 1, admin: 2, owner: 3 } as const satisfies Record<MemberRole, number>

export const atLeast = (role: MemberRole, wanted: MemberRole) => rank[role] >= rank[wanted]

/** Admins manage members and viewers; only owners make, change or remove admins and owners. */
export function canManage(actor: MemberRole, roles: readonly MemberRole[]): boolean {
  return actor === 'owner' || (actor === 'admin' && roles.every(role => rank[role] < rank.admin))
}

export const invitationLifeMs = 7 * 24 * 3_600_000
export const maxProjectsPerAccount = 100
