/** Which addresses an agent's guests, and the agent towards them, have. Pure. */
import type { VmSpec } from '../../contract/agent.ts'
import type { FirewallSpec } from '../../contract/network.ts'
import { contains, formatCidr, parseCidr, parseIp } from '../../lib/cidr.ts'

/** Point-to-point pairs in a slot's /20; the last pair is the agent's own. */
export const pairsPerSlot = 2048
export const usablePairs = pairsPerSlot - 1

/** The host's end of every tap. Link-local, so it is the same everywhere and routed nowhere. */
export const gateway6 = 'fe80::1'

export interface SlotAddresses {
  /** All of the slot's, as CIDR. */
  readonly guests: string
  /** Health checks come from here, so that rules which shut out the gateway do not make a VM look ill. */
  readonly probe: string
  /** Where the agent answers DNS queries of guests. */
  readonly resolver: string
  /** The pair with this index: even on the host, odd in the guest. */
  pair(index: number): { readonly host: string; readonly guest: string }
  /** The host's end of the pair that a guest's address belongs to. */
  hostOf(guest: string): string
  /** The other way round; undefined for an address that is not the host's end of a pair in this slot. */
  indexOf(host: string): number | undefined
}

/** @param subnet an IPv4 /16 that the agents of one machine share */
export function slotAddresses(subnet: string, slot: number): SlotAddresses {
  const [a, b] = subnet.split('.')
  const base = `${a}.${b}`
  const first = slot * pairsPerSlot * 2
  const dotted = (number: number) => `${base}.${number >> 8}.${number & 255}`
  return {
    guests: `${dotted(first)}/20`,
    probe: dotted(first + usablePairs * 2),
    resolver: dotted(first + usablePairs * 2 + 1),
    pair: index => ({ host: dotted(first + index * 2), guest: dotted(first + index * 2 + 1) }),
    hostOf: guest => guest.replace(/\d+$/, last => String(Number(last) & ~1)),
    indexOf(host) {
      const [one, two, c, d] = host.split('.')
      const number = Number(c) * 256 + Number(d) - first
      const inside = `${one}.${two}` === base && number >= 0 && number < usablePairs * 2 && number % 2 === 0
      return inside ? number / 2 : undefined
    },
  }
}

/** What a VM's network follows while it runs. */
export interface NetworkPlan {
  readonly appPort: number
  /** Null where the VM has none. */
  readonly ipv6: { readonly address: string; readonly project: string } | null
  readonly firewall: FirewallSpec
}

export function networkPlan(spec: Pick<VmSpec, 'port' | 'ipv6Address' | 'firewall'>): NetworkPlan {
  const ip = parseIp(spec.ipv6Address)
  const project = parseCidr(`${spec.ipv6Address}/64`)
  return {
    appPort: spec.port,
    ipv6: ip?.family === 6 && project ? { address: spec.ipv6Address, project: formatCidr(project) } : null,
    firewall: spec.firewall ?? { version: 0, rules: [] },
  }
}

const uniqueLocalText = 'fc00::/7'
const uniqueLocal = parseCidr(uniqueLocalText)

/**
 * The guest's IPv6 route: with a unique local address (RFC 4193) only to others, so that programs use IPv4 for everything
 * else at once; with a public one everywhere. What it may reach there is the firewall's business.
 */
export function guestRoute6({ address }: NonNullable<NetworkPlan['ipv6']>): string {
  const ip = parseIp(address)
  return uniqueLocal && ip && contains(uniqueLocal, ip) ? uniqueLocalText : '::/0'
}
