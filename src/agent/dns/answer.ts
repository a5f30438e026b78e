/** Builds responses to DNS queries for private names (RFC 1035; RFC 2308 for negative responses). Pure functions. */
import packet, { type Answer, type DecodedPacket, type Packet, type Question } from 'dns-packet'

/** The top-level domain of private networks: reserved for private use by ICANN (2024). */
const privateDomain = 'internal'
/** Time to live of DNS records; short, because the replicas of an app change often. */
const ttlSeconds = 5
/** Maximum size of a UDP response for clients that announce none (RFC 1035 4.2.1). */
const plainUdpBytes = 512

/** The addresses of each name in a project. The names do not end in `.internal`. */
export type ZoneNames = ReadonlyMap<string, readonly string[]>

/** Returns the response to a query for a private name; undefined for other names, which must be forwarded. */
export function answerPrivate(query: DecodedPacket, names: ZoneNames): Packet | undefined {
  const [question] = query.questions ?? []
  if (!question) return response(query, 'FORMERR')
  const name = question.name.toLowerCase().replace(/\.$/, '')
  if (isPrivateReverse(name)) return response(query, 'NXDOMAIN')
  if (name === privateDomain) return response(query, 'NOERROR')
  // Names without a domain, which programs from compose files use. Guests have no DNS search list, so the resolver gets
  // such names unchanged.
  const isOwn = !name.includes('.') && names.has(name) && ['A', 'AAAA'].includes(question.type ?? '')
  if (isOwn) return response(query, 'NOERROR', addressesOf(question, names.get(name) ?? []))
  if (!name.endsWith(`.${privateDomain}`)) return undefined
  const addresses = names.get(name.slice(0, -privateDomain.length - 1))
  if (!addresses) return response(query, 'NXDOMAIN')
  return response(query, 'NOERROR', addressesOf(question, addresses))
}

const addressesOf = ({ name, type }: Question, addresses: readonly string[]): Answer[] =>
  type === 'AAAA' ? addresses.map(data => ({ type: 'AAAA', name, ttl: ttlSeconds, data })) : []

/** True for a reverse lookup of a private address. Such queries are never forwarded (RFC 6303). */
const isPrivateReverse = (name: string) => /(^|\.)(d\.f|c\.f|8\.e\.f)\.ip6\.arpa$/.test(name)

export const rcodes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
export type Rcode = keyof typeof rcodes

/**
 * Builds a response. A response without records contains the zone's SOA, so that clients cache it as long as records.
 */
export function response(query: DecodedPacket, rcode: Rcode, answers: readonly Answer[] = []): Packet {
  const isAuthority = rcode === 'NOERROR' || rcode === 'NXDOMAIN'
  const recursion = (query.flags ?? 0) & packet.RECURSION_DESIRED
  return {
    type: 'response',
    id: query.id ?? 0,
    flags: packet.RECURSION_AVAILABLE | recursion | (isAuthority ? packet.AUTHORITATIVE_ANSWER : 0) | rcodes[rcode],
    questions: query.questions ?? [],
    answers: [...answers],
    authorities: isAuthority && answers.length === 0 ? [soa] : [],
  }
}

const soa: Answer = {
  type: 'SOA',
  name: privateDomain,
  ttl: ttlSeconds,
  data: {
    mname: `ns.${privateDomain}`,
    rname: `mote.${privateDomain}`,
    serial: 1,
    refresh: 60,
    retry: 60,
    expire: 60,
    minimum: ttlSeconds,
  },
}

/** Encodes a response for UDP. A response that is too long is truncated; the client then retries over TCP. */
export function encodeUdp(query: DecodedPacket, answer: Packet): Buffer {
  const whole = packet.encode(answer)
  if (whole.length <= udpLimit(query)) return whole
  return packet.encode({
    ...answer,
    flags: (answer.flags ?? 0) | packet.TRUNCATED_RESPONSE,
    answers: [],
    authorities: [],
  })
}

/** Returns the client's maximum UDP payload size: EDNS(0), RFC 6891 6.2.3. */
function udpLimit({ additionals = [] }: DecodedPacket): number {
  const options = additionals.find(record => record.type === 'OPT')
  return Math.max(plainUdpBytes, options?.type === 'OPT' ? options.udpPayloadSize : 0)
}
