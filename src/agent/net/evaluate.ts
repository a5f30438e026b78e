import type { FirewallRule, FirewallSpec } from '../../contract/network.ts'
import { contains, parseCidr, parseIp } from '../../lib/cidr.ts'
import { everyPort } from './rules.ts'

export interface Packet {
  readonly direction: FirewallRule['direction']
  readonly protocol: 'tcp' | 'udp' | 'icmp'
  /** Destination port; 0 for ICMP. */
  readonly port: number
  /** Address of the other side: the destination of an outbound packet, the source of an inbound one. */
  readonly remote: string
}

/**
 * Returns the action of the first rule that matches the packet, as the kernel applies it; undefined if no rule matches.
 * Pure.
 */
export function evaluate({ rules }: FirewallSpec, packet: Packet): FirewallRule['action'] | undefined {
  return rules.find(rule => isAbout(rule, packet))?.action
}

function isAbout(rule: FirewallRule, { direction, protocol, port, remote }: Packet): boolean {
  if (rule.direction !== direction) return false
  if (rule.cidr !== null) {
    const [network, ip] = [parseCidr(rule.cidr), parseIp(remote)]
    if (!network || !ip || !contains(network, ip)) return false
  }
  if (rule.protocol === 'any' && everyPort(rule)) return true
  if (rule.protocol === 'icmp' || protocol === 'icmp') return rule.protocol === protocol
  return (rule.protocol === 'any' || rule.protocol === protocol) && port >= rule.portStart && port <= rule.portEnd
}
