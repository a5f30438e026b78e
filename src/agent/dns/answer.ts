/** Answers DNS queries for private names. Pure; RFC 1035, and RFC 2308 for negative answers. */
import packet, { type Answer, type DecodedPacket, type Packet, type Question } from 'dns-packet'

/** The top-level domain of private networks: reserved for private use by ICANN (2024). */
const privateDomain = 'internal'
/** Short, because replicas change often. */
const ttlSeconds = 5
/** Default limit for clients that announce none (RFC 1035 4.2.1). */
const plainUdpBytes = 512

/** Addresses by name, without `.internal`. */
export type ZoneNames = ReadonlyMap<string, readonly string[]>

/** Returns undefined for a name that is not private and must be forwarded. */
export function answerPrivate(query: DecodedPacket, names: ZoneNames): Packet | undefined {
  const [question] = query.questions ?? []
  if (!question) return response(query, 'FORMERR')
  const name = question.name.toLowerCase().replace(/\.$/, '')
  if (isPrivateReverse(name)) return response(query, 'NXDOMAIN')
  if (name === privateDomain) return response(query, 'NOERROR')
  // Programs of compose files use names without a domain. Guests have no search list, so these arrive as they are.
  const isOwn = !name.includes('.') && names.has(name) && ['A', 'AAAA'].includes(question.type ?? '')
  if (isOwn) return response(query, 'NOERROR', addressesOf(question, names.get(name) ?? []))
  if (!name.endsWith(`.${privateDomain}`)) return undefined
  const addresses = names.get(name.slice(0, -privateDomain.length - 1))
  if (!addresses) return response(query, 'NXDOMAIN')
  return response(query, 'NOERROR', addressesOf(question, addresses))
}

const addressesOf = ({ name, type }: Question, addresses: readonly string[]): Answer[] =>
  type === 'AAAA' ? addresses.map(data => ({ type: 'AAAA', name, ttl: ttlSeconds, data })) : []

/** Reverse lookups of private addresses (RFC 6303, RFC 8375 in spirit), which are never forwarded. */
const isPrivateReverse = (name: string) => /(^|\.)(d\.f|c\.f|8\.e\.f)\.ip6\.arpa$/.test(name)

export const rcodes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
export type Rcode = keyof typeof rcodes

/**
 * Builds a response. Without answers it carries the zone's SOA, so that negative answers are cached as long as records.
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

/** Encodes an answer for UDP. An answer that is too long is truncated, and the client retries over TCP. */
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

/** The client's UDP payload size: EDNS(0), RFC 6891 6.2.3. */
function udpLimit({ additionals = [] }: DecodedPacket): number {
  const options = additionals.find(record => record.type === 'OPT')
  return Math.max(plainUdpBytes, options?.type === 'OPT' ? options.udpPayloadSize : 0)
}
