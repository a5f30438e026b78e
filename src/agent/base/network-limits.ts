/** Limits on one guest's use of its host's network: the settings and the nft rules that enforce them. Pure. */

/** Limits of one guest. Each guest has its own counters, so one guest cannot use up another's allowance. */
export interface GuestLimits {
  /** Maximum number of connections tracked at the same time, in each direction. */
  readonly connections: number
  /** Maximum number of new connections per second, in each direction. */
  readonly newConnections: number
  /** Maximum number of packets per second, in each direction. */
  readonly packets: number
  /** Maximum throughput in each direction. */
  readonly mibPerSecond: number
  /** Maximum number of DNS queries per second to the host's resolver. */
  readonly nameQueries: number
}

/**
 * Default limits, far above the needs of real apps. Thirty guests at their limits fit into the kernel's connection
 * tracking table of 262,144 entries.
 */
export const defaultLimits: GuestLimits = {
  connections: 8_192,
  newConnections: 1_000,
  packets: 100_000,
  mibPerSecond: 256,
  nameQueries: 500,
}

/** Limit on a guest's broadcasts and multicasts, which the host processes one by one. */
const groupPacketsPerSecond = 50
/** Limit on IP fragments: the kernel keeps those of an incomplete datagram for 30 s, in 4 MiB shared by all guests. */
const fragmentsPerSecond = 50
/** Limit on ARP and neighbor solicitations: each sender address takes one of the host's 1024 neighbor entries. */
const neighborAsksPerSecond = 5

/**
 * How long a closed TCP connection stays in the kernel's connection tracking table. With the kernel's default of 120 s,
 * closed connections would fill the table.
 */
const closedSeconds = 10
/** How long the kernel tracks a DNS query over UDP. The host's resolver answers sooner, or times out. */
const nameSeconds = 10

/** Kinds of refused packets, by the limit that a guest exceeded. */
export const refusalKinds = ['packets', 'traffic', 'connections', 'new_connections', 'names', 'neighbors'] as const
export type RefusalKind = (typeof refusalKinds)[number]

/** Returns the line for the VM's log that reports refused packets. */
export function refusalText(kind: RefusalKind, count: number, limits: GuestLimits): string {
  const texts = {
    packets: `More packets went to or from this VM than its host allows (${limits.packets} a second in each direction, ${groupPacketsPerSecond} broadcasts, ${fragmentsPerSecond} fragments): ${count} were dropped`,
    traffic: `More than ${limits.mibPerSecond} MiB a second went to or from this VM: ${count} packets were dropped`,
    connections: `This VM has ${limits.connections} connections open in one direction, the most that its host allows: ${count} attempts to open more were refused`,
    new_connections: `This VM opens or accepts more than ${limits.newConnections} connections a second: ${count} attempts were refused`,
    names: `This VM sends more than ${limits.nameQueries} DNS queries a second: ${count} were not answered`,
    neighbors: `This VM asks for its gateway's hardware address more than ${neighborAsksPerSecond} times a second: ${count} requests were not answered`,
  } as const satisfies Record<RefusalKind, string>
  return texts[kind]
}

const refusedSet = (kind: RefusalKind) => `refused_${kind}`
/** Returns the kind of refusals that an nft set counts; undefined for a set that counts no refusals. */
export const kindOfSet = (name: string): RefusalKind | undefined => refusalKinds.find(kind => refusedSet(kind) === name)

/**
 * The nft sets with a rate limit per tap. An element expires after a minute without packets, when its limit has
 * refilled.
 */
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

/**
 * Returns the nft statements that create the sets for limits. A tap's first packet adds the tap's element to a set. The
 * kernel removes an element of the connection counts with the tap's last connection. Counts of refusals expire after an
 * hour; the agent reads them every few seconds.
 */
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

/** Returns the nft statements that reset the rate limits, so that new settings apply now. Connection counts stay. */
export const forgetRates = (table: string): string[] => meterSets.map(name => `flush set ${table} ${name}`)

const over = (meter: Meter, key: 'iifname' | 'oifname', rate: string, burst: string) =>
  `update @${meter} { ${key} limit rate over ${rate}/second burst ${burst} }`
const packetsOver = (meter: Meter, key: 'iifname' | 'oifname', perSecond: number, burst = perSecond) =>
  over(meter, key, String(perSecond), `${burst} packets`)
const bytesOver = (meter: Meter, key: 'iifname' | 'oifname', mib: number) =>
  over(meter, key, `${mib} mbytes`, `${mib} mbytes`)
const refuse = (kind: RefusalKind, key: 'iifname' | 'oifname') => `update @${refusedSet(kind)} { ${key} counter } drop`

/** Matches the first packet of a connection that the kernel does not track yet. */
const isFirst = 'ct state new ct status ! confirmed'

interface LimitInput {
  readonly limits: GuestLimits
  /** Matches every tap of the agent, as an nft expression. */
  readonly tap: string
  readonly resolver: string
}

/** Rules that apply before defragmentation and connection tracking, where a dropped packet costs least. */
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

/** Rules that apply after connection tracking has processed the packet. */
export function trackedRules({ limits, tap, resolver }: LimitInput): string[] {
  const { newConnections: most } = limits
  const tooFast = packetsOver('new_out', 'iifname', most, 2 * most)
  return [
    `iifname ${tap} ip daddr ${resolver} udp dport 53 ct timeout set "names" accept`,
    `iifname ${tap} ${isFirst} ${tooFast} ${refuse('new_connections', 'iifname')}`,
  ]
}

/** Rules for packets forwarded to a guest, evaluated before the guest's own rules; they also count replies. */
export function forwardedRules({ limits, tap }: LimitInput): string[] {
  const to = `oifname ${tap}`
  return [
    `${to} ${packetsOver('packets_in', 'oifname', limits.packets)} ${refuse('packets', 'oifname')}`,
    `${to} ${bytesOver('bytes_in', 'oifname', limits.mibPerSecond)} ${refuse('traffic', 'oifname')}`,
  ]
}

/** Rules for new connections that the firewall rules of both guests have accepted. */
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

/** Rules for IPv6 neighbor solicitations, before they are accepted. */
export const neighborRules = ({ tap }: LimitInput): string[] => [
  `iifname ${tap} icmpv6 type nd-neighbor-solicit ${neighborAsks} ${refuse('neighbors', 'iifname')}`,
]
const neighborAsks = packetsOver('neighbor_asks', 'iifname', neighborAsksPerSecond, 4 * neighborAsksPerSecond)

/**
 * Returns the nft table that limits IPv4 neighbor requests (ARP), which nft handles in a separate family. Safe to load
 * repeatedly.
 */
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
