/** How much of its host's network one guest may use: the settings, and the nft rules that hold it to them. Pure. */

/** Each guest has counters of its own: what one uses up, no other lacks. */
export interface GuestLimits {
  /** Connections tracked at once, in each direction. */
  readonly connections: number
  /** New connections a second, in each direction. */
  readonly newConnections: number
  /** Packets a second, in each direction. */
  readonly packets: number
  /** In each direction. */
  readonly mibPerSecond: number
  /** DNS queries a second to the host's resolver. */
  readonly nameQueries: number
}

/** Above what real apps need; together they leave room for 30 guests at their limits in a table of 262,144 connections. */
export const defaultLimits: GuestLimits = {
  connections: 8_192,
  newConnections: 1_000,
  packets: 100_000,
  mibPerSecond: 256,
  nameQueries: 500,
}

/** Broadcasts and multicasts, which the host judges one by one. */
const groupPacketsPerSecond = 50
/** Of a datagram that is never whole the kernel keeps the fragments for 30 s, 4 MiB for all guests together. */
const fragmentsPerSecond = 50
/** Where is the gateway? Each sender that it says costs a place in the host's table of 1024 neighbors. */
const neighborAsksPerSecond = 5

/** The kernel's own 120 s would keep that many closed connections of each second; peers are done in less. */
const closedSeconds = 10
/** DNS over UDP: an answer comes at once, or in the seconds that the host's resolvers have. */
const nameSeconds = 10

/** What a guest was refused. */
export const refusalKinds = ['packets', 'traffic', 'connections', 'new_connections', 'names', 'neighbors'] as const
export type RefusalKind = (typeof refusalKinds)[number]

/** For the log of the VM. */
export function refusalText(kind: RefusalKind, count: number, limits: GuestLimits): string {
  const texts = {
    packets: `More packets went to or from this VM than its host allows (${limits.packets} a second in each direction, ${groupPacketsPerSecond} broadcasts, ${fragmentsPerSecond} fragments): ${count} were dropped`,
    traffic: `More than ${limits.mibPerSecond} MiB a second went to or from this VM: ${count} packets were dropped`,
    connections: `This VM has ${limits.connections} connections open in one direction, the most that its host allows: ${count} attempts to open more were refused`,
    new_connections: `This VM opens or accepts more than ${limits.newConnections} connections a second: ${count} attempts were refused`,
    names: `This VM asks for more than ${limits.nameQueries} names a second: ${count} DNS queries were not answered`,
    neighbors: `This VM asks for its gateway's hardware address more than ${neighborAsksPerSecond} times a second: ${count} requests were not answered`,
  } as const satisfies Record<RefusalKind, string>
  return texts[kind]
}

const refusedSet = (kind: RefusalKind) => `refused_${kind}`
/** Undefined: another set. */
export const kindOfSet = (name: string): RefusalKind | undefined => refusalKinds.find(kind => refusedSet(kind) === name)

/** A rate that nobody uses for a minute has refilled by then; counts are read every few seconds. */
const meterSets = [
  'packets_out',
  'packets_in',
  'bytes_out',
  'bytes_in',
  'groups',
  'fragments',
  'fragments6',
  'name_queries',
  'new_out',
  'new_in',
  'neighbor_asks',
] as const
type Meter = (typeof meterSets)[number]
const mostTaps = 4096

/** Elements come with the first packet of a tap. The kernel removes those of connections with the last connection. */
export function limitObjects(table: string): string[] {
  const set = (name: string, flags: string) => `add set ${table} ${name} { type ifname; size ${mostTaps}; ${flags} }`
  const timeout = (name: string, protocol: string, l3: string, policy: string) =>
    `add ct timeout ${table} ${name} { protocol ${protocol}; l3proto ${l3}; policy = { ${policy} }; }`
  return [
    ...meterSets.map(name => set(name, 'flags dynamic,timeout; timeout 1m;')),
    ...['connections_out', 'connections_in'].map(name => set(name, 'flags dynamic;')),
    ...refusalKinds.map(kind => set(refusedSet(kind), 'flags dynamic,timeout; timeout 1h;')),
    timeout('tcp4', 'tcp', 'ip', `time_wait: ${closedSeconds}, close: ${closedSeconds}`),
    timeout('tcp6', 'tcp', 'ip6', `time_wait: ${closedSeconds}, close: ${closedSeconds}`),
    timeout('names', 'udp', 'ip', `unreplied: ${nameSeconds}, replied: ${nameSeconds}`),
  ]
}

/** Settings that have changed since the sets were filled hold at once. Counts of connections go on. */
export const forgetRates = (table: string): string[] => meterSets.map(name => `flush set ${table} ${name}`)

const over = (meter: Meter, key: 'iifname' | 'oifname', rate: string, burst: string) =>
  `update @${meter} { ${key} limit rate over ${rate}/second burst ${burst} }`
const packetsOver = (meter: Meter, key: 'iifname' | 'oifname', perSecond: number, burst = perSecond) =>
  over(meter, key, String(perSecond), `${burst} packets`)
const bytesOver = (meter: Meter, key: 'iifname' | 'oifname', mib: number) =>
  over(meter, key, `${mib} mbytes`, `${mib} mbytes`)
const refuse = (kind: RefusalKind, key: 'iifname' | 'oifname') => `update @${refusedSet(kind)} { ${key} counter } drop`

/** Of a connection that the kernel does not have yet: its first packet. */
const isFirst = 'ct state new ct status ! confirmed'

interface LimitInput {
  readonly limits: GuestLimits
  /** As an expression: every tap of the agent. */
  readonly tap: string
  readonly resolver: string
}

/** Before the kernel puts fragments together and looks for a connection: what is too much costs least here. */
export function arrivingRules({ limits, tap, resolver }: LimitInput): string[] {
  const from = `iifname ${tap}`
  const groups = packetsOver('groups', 'iifname', groupPacketsPerSecond, 2 * groupPacketsPerSecond)
  const fragments = (meter: Meter) => packetsOver(meter, 'iifname', fragmentsPerSecond, 4 * fragmentsPerSecond)
  const names = packetsOver('name_queries', 'iifname', limits.nameQueries, 2 * limits.nameQueries)
  return [
    `${from} ${packetsOver('packets_out', 'iifname', limits.packets)} ${refuse('packets', 'iifname')}`,
    `${from} ${bytesOver('bytes_out', 'iifname', limits.mibPerSecond)} ${refuse('traffic', 'iifname')}`,
    `${from} meta pkttype { broadcast, multicast } ${groups} ${refuse('packets', 'iifname')}`,
    `${from} ip frag-off & 0x3fff != 0 ${fragments('fragments')} ${refuse('packets', 'iifname')}`,
    `${from} exthdr frag exists ${fragments('fragments6')} ${refuse('packets', 'iifname')}`,
    `${from} ip daddr ${resolver} udp dport 53 ${names} ${refuse('names', 'iifname')}`,
  ]
}

/** As soon as the kernel knows whether a packet belongs to a connection. */
export function trackedRules({ limits, tap, resolver }: LimitInput): string[] {
  const { newConnections: most } = limits
  const tooFast = packetsOver('new_out', 'iifname', most, 2 * most)
  return [
    `iifname ${tap} ip daddr ${resolver} udp dport 53 ct timeout set "names" accept`,
    `iifname ${tap} ${isFirst} ${tooFast} ${refuse('new_connections', 'iifname')}`,
  ]
}

/** What is forwarded to a guest, before its rules: replies count. */
export function forwardedRules({ limits, tap }: LimitInput): string[] {
  const to = `oifname ${tap}`
  return [
    `${to} ${packetsOver('packets_in', 'oifname', limits.packets)} ${refuse('packets', 'oifname')}`,
    `${to} ${bytesOver('bytes_in', 'oifname', limits.mibPerSecond)} ${refuse('traffic', 'oifname')}`,
  ]
}

/** What the rules of both ends have let pass. */
export function openedRules({ limits, tap }: LimitInput): string[] {
  const { connections, newConnections: most } = limits
  const tooFast = packetsOver('new_in', 'oifname', most, 2 * most)
  const tooMany = (key: 'iifname' | 'oifname') =>
    `update @connections_${key === 'iifname' ? 'out' : 'in'} { ${key} ct count over ${connections} }`
  const closeSoon = (key: 'iifname' | 'oifname') => [
    `${key} ${tap} ${isFirst} meta nfproto ipv4 meta l4proto tcp ct timeout set "tcp4"`,
    `${key} ${tap} ${isFirst} meta nfproto ipv6 meta l4proto tcp ct timeout set "tcp6"`,
  ]
  return [
    `oifname ${tap} ${isFirst} ${tooFast} ${refuse('new_connections', 'oifname')}`,
    `iifname ${tap} ${isFirst} ${tooMany('iifname')} ${refuse('connections', 'iifname')}`,
    `oifname ${tap} ${isFirst} ${tooMany('oifname')} ${refuse('connections', 'oifname')}`,
    ...closeSoon('iifname'),
    ...closeSoon('oifname'),
  ]
}

/** Neighbor discovery of IPv6, before it is let in. */
export const neighborRules = ({ tap }: LimitInput): string[] => [
  `iifname ${tap} icmpv6 type nd-neighbor-solicit ${neighborAsks} ${refuse('neighbors', 'iifname')}`,
]
const neighborAsks = packetsOver('neighbor_asks', 'iifname', neighborAsksPerSecond, 4 * neighborAsksPerSecond)

/** IPv4 asks by ARP, which has a family of tables of its own. Loaded again and again. */
export function arpTable(name: string, tap: string): string[] {
  const table = `arp ${name}`
  return [
    `add table ${table}`,
    `delete table ${table}`,
    `add table ${table}`,
    `add set ${table} neighbor_asks { type ifname; size ${mostTaps}; flags dynamic,timeout; timeout 1m; }`,
    `add set ${table} ${refusedSet('neighbors')} { type ifname; size ${mostTaps}; flags dynamic,timeout; timeout 1h; }`,
    `add chain ${table} to_host { type filter hook input priority filter; policy accept; }`,
    `add rule ${table} to_host iifname ${tap} ${neighborAsks} ${refuse('neighbors', 'iifname')}`,
  ]
}
