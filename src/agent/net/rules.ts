/** Renders the agent's firewall as nft statements. Pure; `firewall.ts` loads them. docs/networking.md has a diagram. */
import type { FirewallRule } from '../../contract/network.ts'
import type { NetworkPlan } from './addresses.ts'
import {
  arpTable,
  arrivingRules,
  forgetRates,
  forwardedRules,
  type GuestLimits,
  limitObjects,
  neighborRules,
  openedRules,
  trackedRules,
} from '../base/network-limits.ts'

/** Matches the taps of all agents on the host; `tapPrefix` returns the prefix of one agent's taps. */
const anyTap = '"mote*"'
export const tapPrefix = (slot: number) => `mote${slot.toString(16)}`
export const tableName = (slot: number) => `mote_${slot.toString(16)}`
/** The WireGuard device. "mote*" must not match it: packets from the mesh come from another host, not from a guest. */
export const meshDevice = 'wg-mote'

/** The base chains of this version of Mote. A table with other chains is from another version or another program. */
export const baseChains = [
  'arriving',
  'antispoof',
  'tracked',
  'to_host',
  'routed',
  'leaving',
  'entering',
  'from_host',
  'outside',
] as const

/**
 * Networks that are not on the internet: RFC 6890 without its public ranges. Guests reach these networks only if the
 * operator allows it.
 */
const privateV4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4'],
]
const privateV6 = ['::/127', '64:ff9b::/96', 'fc00::/7', 'fe80::/10', 'ff00::/8']

export interface TableInput {
  readonly slot: number
  /** The address range of this agent's guests, as CIDR. */
  readonly guests: string
  readonly probe: string
  readonly resolver: string
  /** Private networks (IPv4 CIDR) that guests may reach. They may reach no other private network. */
  readonly allowed: readonly string[]
  /** Networks (IPv4 or IPv6 CIDR) that no guest may reach, such as that of the control plane. */
  readonly denied: readonly string[]
  /** Limits of each guest; null if the kernel does not support them. */
  readonly limits: GuestLimits | null
}

/**
 * Returns the rules that all VMs share, as statements that can be loaded repeatedly: the chains of VMs are kept. A tap
 * without chains of its own passes no packet. Replies pass; every packet in the connection's original direction is
 * checked, so that a deny rule also ends open connections.
 */
export function baseTable(input: TableInput): string {
  const { guests, probe, resolver } = input
  const table = `inet ${tableName(input.slot)}`
  const tap = `"${tapPrefix(input.slot)}*"`
  const chain = (name: (typeof baseChains)[number], hook: string, rules: readonly string[]) => [
    `add chain ${table} ${name}${hook && ` { type ${hook}; policy accept; }`}`,
    `flush chain ${table} ${name}`,
    ...rules.map(rule => `add rule ${table} ${name} ${rule}`),
  ]
  const limit = (rules: (limited: { limits: GuestLimits; tap: string; resolver: string }) => readonly string[]) =>
    input.limits ? rules({ limits: input.limits, tap, resolver }) : []
  const replies = ['ct direction reply ct state established,related accept', 'ct state related accept']
  return lines([
    `add table ${table}`,
    `add map ${table} leaving_vms { type ifname : verdict; }`,
    `add map ${table} entering_vms { type ifname : verdict; }`,
    `add set ${table} vmms { type uid; }`,
    `add set ${table} gateways { type ipv6_addr; }`,
    `add set ${table} gateways4 { type ipv4_addr; }`,
    ...limit(() => [...limitObjects(table), ...forgetRates(table), ...arpTable(tableName(input.slot), tap)]),
    ...chain('leaving', '', [
      'ct state invalid drop',
      ...replies,
      `meta nfproto ipv4 oifname ${anyTap} drop`,
      `meta nfproto ipv4 oifname "${meshDevice}" drop`,
      ...input.denied.map(cidr => `${family(cidr)} daddr ${cidr} drop`),
      `${except('ip daddr', input.allowed)}ip daddr { ${privateV4.join(', ')} } drop`,
      'iifname vmap @leaving_vms',
      'drop',
    ]),
    ...chain('entering', '', ['ct state invalid drop', ...replies, 'oifname vmap @entering_vms', 'drop']),
    ...chain('arriving', 'filter hook prerouting priority -450', limit(arrivingRules)),
    ...chain('antispoof', 'filter hook prerouting priority raw', [`iifname ${tap} fib saddr . iif oif missing drop`]),
    ...chain('tracked', 'filter hook prerouting priority mangle', limit(trackedRules)),
    ...chain('to_host', 'filter hook input priority filter', [
      `iifname ${tap} ct direction reply ct state established,related accept`,
      ...limit(neighborRules),
      // Guests may solicit the gateway as a neighbor. Other neighbor discovery messages and router advertisements are
      // dropped.
      `iifname ${tap} icmpv6 type nd-neighbor-solicit accept`,
      `iifname ${tap} ip daddr ${resolver} meta l4proto { tcp, udp } th dport 53 accept`,
      `iifname ${tap} drop`,
    ]),
    ...chain('routed', 'filter hook forward priority filter', [
      `oifname "${meshDevice}" tcp flags syn tcp option maxseg size set rt mtu`,
      `iifname "${meshDevice}" tcp flags syn tcp option maxseg size set rt mtu`,
      ...limit(forwardedRules),
      `iifname ${tap} jump leaving`,
      `oifname ${tap} jump entering`,
      ...limit(openedRules),
    ]),
    ...chain('from_host', 'filter hook output priority filter', [
      // Drops the packets of a compromised VMM that has no network namespace of its own.
      'meta skuid @vmms drop',
      `oifname != ${tap} accept`,
      `icmpv6 type { ${hostIcmp6.join(', ')} } accept`,
      `ip saddr ${probe} accept`,
      'goto entering',
    ]),
    ...chain('outside', 'nat hook postrouting priority srcnat', [
      `ip saddr ${guests} oifname != ${anyTap} oifname != "${meshDevice}" masquerade`,
    ]),
  ])
}

/** Returns the statements that delete both tables of the agent, if they exist. */
export function deleteTables({ slot, limits }: TableInput): string {
  const tables = [`inet ${tableName(slot)}`, ...(limits ? [`arp ${tableName(slot)}`] : [])]
  return lines(tables.flatMap(table => [`add table ${table}`, `delete table ${table}`]))
}

/** ICMPv6 messages that the host sends to guests. They are untracked or belong to connections that guests opened. */
const hostIcmp6 = [
  ...['nd-neighbor-solicit', 'nd-neighbor-advert', 'destination-unreachable', 'packet-too-big', 'time-exceeded'],
  'parameter-problem',
]

export interface GuardedVm {
  readonly tap: string
  readonly plan: NetworkPlan
  /** The uid of the VM's VMM; undefined: the VMM runs as the agent's user. */
  readonly owner: number | undefined
}

export const chainsOf = (tap: string) => ({ leaving: `out_${tap}`, entering: `in_${tap}` })
/** Returns the tap of the VM to which this chain belongs; undefined if it belongs to no VM. */
export const tapOfChain = (chain: string): string | undefined => /^(?:in|out)_(mote.*)/.exec(chain)?.[1]
/** Names of the nft maps that send the packets of a VM's tap to the VM's chains. */
export const vmMaps = ['leaving_vms', 'entering_vms'] as const

/**
 * Returns statements of one transaction that create the VM's two chains and their elements in the maps. In a chain,
 * `return` lets a packet pass; a packet between two guests must pass the chains of both.
 */
export function vmChains(slot: number, { tap, plan, owner }: GuardedVm): string {
  const table = `inet ${tableName(slot)}`
  const { leaving, entering } = chainsOf(tap)
  const project = plan.ipv6?.project
  const { rules, ports: ofServices = [] } = plan.firewall
  const ports = ofServices.length === 0 ? plan.appPort : `{ ${[...new Set([plan.appPort, ...ofServices])].join(', ')} }`
  const ownNetwork = project ? [`ip6 saddr ${project} return`] : []
  return lines([
    `add chain ${table} ${leaving}`,
    `flush chain ${table} ${leaving}`,
    ...(project ? foreign(project) : ['meta nfproto ipv6 drop']).map(rule => `add rule ${table} ${leaving} ${rule}`),
    ...rulesOf(rules, 'outbound').map(rule => `add rule ${table} ${leaving} ${rule}`),
    `add chain ${table} ${entering}`,
    `flush chain ${table} ${entering}`,
    // Drop packets from the taps of other projects before the rules, so that no rule can allow them. For packets from
    // the mesh, the sending host does this (`foreign`).
    ...(project ? [`add rule ${table} ${entering} iifname ${anyTap} ip6 saddr != ${project} drop`] : []),
    ...rulesOf(rules, 'inbound').map(rule => `add rule ${table} ${entering} ${rule}`),
    ...[
      ...ownNetwork,
      `fib saddr type local tcp dport ${ports} return`,
      `iifname "${meshDevice}" ip6 saddr @gateways tcp dport ${ports} return`,
      `iifname "${meshDevice}" ip saddr @gateways4 tcp dport ${ports} return`,
      'drop',
    ].map(rule => `add rule ${table} ${entering} ${rule}`),
    ...(owner === undefined ? [] : [`add element ${table} vmms { ${owner} }`]),
    `add element ${table} leaving_vms { "${tap}" : goto ${leaving} }`,
    `add element ${table} entering_vms { "${tap}" : goto ${entering} }`,
  ])
}

/** Returns rules that drop packets from a guest of `project` to the networks of other projects. */
function foreign(project: string): string[] {
  return [
    `ip6 daddr != ${project} ip6 daddr { ${privateV6.join(', ')} } drop`,
    `oifname ${anyTap} ip6 daddr != ${project} drop`,
    `oifname "${meshDevice}" ip6 daddr != ${project} drop`,
  ]
}

/** Returns statements that remove a VM's rules. @param chains those that exist @param maps those with its element */
export function dropVm(slot: number, tap: string, maps: readonly string[], chains: readonly string[]): string {
  const table = `inet ${tableName(slot)}`
  return lines([
    ...maps.map(map => `delete element ${table} ${map} { "${tap}" }`),
    ...chains.flatMap(chain => [`flush chain ${table} ${chain}`, `delete chain ${table} ${chain}`]),
  ])
}

/** Returns the statement that removes the uid of a VMM from the set of blocked users. */
export const dropOwner = (slot: number, owner: number | undefined): string =>
  owner === undefined ? '' : lines([`delete element inet ${tableName(slot)} vmms { ${owner} }`])

/** Returns the statements that set the addresses of the hosts whose gateways may reach this host's apps. */
export function gatewaySets(slot: number, addresses: readonly string[]): string {
  const table = `inet ${tableName(slot)}`
  const fill = (set: string, members: readonly string[]) => [
    `flush set ${table} ${set}`,
    ...(members.length > 0 ? [`add element ${table} ${set} { ${members.join(', ')} }`] : []),
  ]
  const isV6 = (address: string) => family(address) === 'ip6'
  return lines([
    ...fill('gateways', addresses.filter(isV6)),
    ...fill(
      'gateways4',
      addresses.filter(address => !isV6(address)),
    ),
  ])
}

function rulesOf(rules: readonly FirewallRule[], direction: FirewallRule['direction']): string[] {
  const side = direction === 'inbound' ? 'saddr' : 'daddr'
  return rules
    .filter(rule => rule.direction === direction)
    .map(rule => {
      const where = rule.cidr === null ? '' : `${family(rule.cidr)} ${side} ${rule.cidr} `
      const verdict = rule.action === 'allow' ? 'return' : 'drop'
      return `${where}${matchOf(rule)}${verdict} comment "rule ${rule.id}"`
    })
}

export const everyPort = ({ portStart, portEnd }: Pick<FirewallRule, 'portStart' | 'portEnd'>) =>
  portStart === 0 && portEnd === 65_535

function matchOf(rule: FirewallRule): string {
  const ports = everyPort(rule) ? '' : `th dport ${rule.portStart}-${rule.portEnd} `
  if (rule.protocol === 'icmp') return 'meta l4proto { icmp, icmpv6 } '
  if (rule.protocol !== 'any') return `meta l4proto ${rule.protocol} ${ports}`
  return ports === '' ? '' : `meta l4proto { tcp, udp } ${ports}`
}

const family = (cidr: string) => (cidr.includes(':') ? 'ip6' : 'ip')
const except = (what: string, cidrs: readonly string[]) =>
  cidrs.length > 0 ? `${what} != { ${cidrs.join(', ')} } ` : ''
const lines = (all: readonly string[]) => `${all.join('\n')}\n`
