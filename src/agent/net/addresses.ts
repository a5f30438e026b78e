/** Computes the addresses of an agent's guests, and the agent's own addresses that guests can reach. Pure functions. */
import type { VmSpec } from '../../contract/agent.ts'
import type { FirewallSpec } from '../../contract/network.ts'
import { contains, formatCidr, formatIp, parseCidr, parseIp } from '../../lib/cidr.ts'

/** Number of address pairs, for point-to-point links, in an agent's /20. The last pair is for the agent itself. */
const pairCount = 2048
export const usablePairs = pairCount - 1

/** IPv6 address of the host's end of every tap. Link-local, so all taps can have it, and no packet to it is routed. */
export const gateway6 = 'fe80::1'

export interface AgentAddresses {
  /** The agent's whole address range, as CIDR. */
  readonly guests: string
  /**
   * Source address of health checks. It differs from the gateway's, so that a rule that shuts out the gateway does not
   * make a VM unhealthy.
   */
  readonly probe: string
  /** Address on which the agent answers DNS queries of guests. */
  readonly resolver: string
  /** Returns the address pair with this index: the host has the even address, the guest the odd one. */
  pair(index: number): { readonly host: string; readonly guest: string }
  /** Returns the host's address of the pair that contains this address of a guest. */
  hostOf(guest: string): string
  /** Returns the index of the pair with this host address (inverse of `pair`); undefined for any other address. */
  indexOf(host: string): number | undefined
}

/** Returns the /20 of the agent with this slot. @param subnet an IPv4 /16 that the agents of one host share */
export function sliceOf(subnet: string, slot: number): string {
  const [a, b] = subnet.split('.')
  return `${a}.${b}.${(slot * pairCount * 2) >> 8}.0/20`
}

/** Computes an agent's addresses. @param guests the agent's IPv4 /20 @throws Error when it is not an IPv4 /20 */
export function agentAddresses(guests: string): AgentAddresses {
  const network = parseCidr(guests)
  if (network?.family !== 4 || network.prefix !== 20) throw new Error(`"${guests}" is not an IPv4 /20`)
  const dotted = (offset: number) => formatIp({ family: 4, value: network.value + BigInt(offset) })
  return {
    guests: formatCidr(network),
    probe: dotted(usablePairs * 2),
    resolver: dotted(usablePairs * 2 + 1),
    pair: index => ({ host: dotted(index * 2), guest: dotted(index * 2 + 1) }),
    hostOf: guest => guest.replace(/(?<!\d)\d+$/, last => String(Number(last) & ~1)),
    indexOf(host) {
      const ip = parseIp(host)
      const offset = ip?.family === 4 ? Number(ip.value - network.value) : -1
      return offset >= 0 && offset < usablePairs * 2 && offset % 2 === 0 ? offset / 2 : undefined
    },
  }
}

/** Returns the /20 that contains an address. */
export function networkOf(address: string): string | undefined {
  const network = parseCidr(`${address}/20`)
  return network?.family === 4 ? formatCidr(network) : undefined
}

/** The part of a VM's desired network that can change while the VM runs. */
export interface NetworkPlan {
  readonly appPort: number
  /** Null if the VM has no IPv6 address. */
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
 * Returns the destination of the guest's IPv6 route. For a guest with a unique local address (RFC 4193), these are only
 * other unique local addresses, so that its programs use IPv4 for the internet without waiting for a timeout. A guest
 * with a public address gets a default route. The firewall decides which destinations are allowed.
 */
export function guestRoute6({ address }: NonNullable<NetworkPlan['ipv6']>): string {
  const ip = parseIp(address)
  return uniqueLocal && ip && contains(uniqueLocal, ip) ? uniqueLocalText : '::/0'
}
