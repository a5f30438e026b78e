/** What a query is answered with. Pure; RFC 1035, and RFC 2308 for what is not there. */
import packet, { type Answer, type DecodedPacket, type Packet } from 'dns-packet'

/** The private networks' top-level domain: reserved for this by ICANN (2024). */
const privateDomain = 'internal'
/** Replicas come and go. */
const ttlSeconds = 5
/** A client that does not say what it can take (RFC 1035 4.2.1). */
const plainUdpBytes = 512

/** Addresses by name, without `.internal`. */
export type ZoneNames = ReadonlyMap<string, readonly string[]>

/** Undefined: not a private name, ask somebody else. */
export function answerPrivate(query: DecodedPacket, names: ZoneNames): Packet | undefined {
  const [question] = query.questions ?? []
  if (!question) return response(query, 'FORMERR')
  const name = question.name.toLowerCase().replace(/\.$/, '')
  if (isPrivateReverse(name)) return response(query, 'NXDOMAIN')
  if (name === privateDomain) return response(query, 'NOERROR')
  if (!name.endsWith(`.${privateDomain}`)) return undefined
  const addresses = names.get(name.slice(0, -privateDomain.length - 1))
  if (!addresses) return response(query, 'NXDOMAIN')
  const answers: Answer[] =
    question.type === 'AAAA'
      ? addresses.map(data => ({ type: 'AAAA', name: question.name, ttl: ttlSeconds, data }))
      : []
  return response(query, 'NOERROR', answers)
}

/** Names of addresses that mean something only here (RFC 6303, RFC 8375 in spirit): nobody else is asked. */
const isPrivateReverse = (name: string) => /(^|\.)(d\.f|c\.f|8\.e\.f)\.ip6\.arpa$/.test(name)

export const rcodes = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
export type Rcode = keyof typeof rcodes

/** Without answers it carries the zone's SOA, so that "not there" may be kept for as long as a record. */
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

/** As UDP carries it: what is too long is cut, and the client asks again over TCP. */
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

/** EDNS(0), RFC 6891 6.2.3. */
function udpLimit({ additionals = [] }: DecodedPacket): number {
  const options = additionals.find(record => record.type === 'OPT')
  return Math.max(plainUdpBytes, options?.type === 'OPT' ? options.udpPayloadSize : 0)
}
