/** IP addresses and networks as numbers: parsing, canonical text, containment. */
import { isIPv4, isIPv6 } from 'node:net'

export interface Ip {
  readonly family: 4 | 6
  readonly value: bigint
}

export interface Cidr extends Ip {
  /**
   * Number of leading bits that addresses of the network have in common. The other bits of the network's own address
   * are zero.
   */
  readonly prefix: number
}

export const ipBits = (family: Ip['family']): number => (family === 4 ? 32 : 128)

/** Parses an address. Returns undefined for anything else, and for an address with a zone (`fe80::1%eth0`). */
export function parseIp(text: string): Ip | undefined {
  if (isIPv4(text)) return { family: 4, value: fromParts(text.split('.').map(Number), 8) }
  if (!isIPv6(text) || text.includes('%')) return undefined
  const plain = text.replace(/(?<![\d.])[\d.]+$/, tail => (isIPv4(tail) ? groupsOfV4(tail) : tail))
  const [head = '', rest] = plain.split('::')
  const left = groups(head)
  const right = groups(rest ?? '')
  const zeros = rest === undefined ? [] : Array.from({ length: 8 - left.length - right.length }, () => 0)
  return { family: 6, value: fromParts([...left, ...zeros, ...right], 16) }
}

/** Formats an address; IPv6 as in RFC 5952: lower case, the longest run of zeros as `::`. */
export function formatIp({ family, value }: Ip): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map(shift => Number((value >> shift) & 255n)).join('.')
  const all = Array.from({ length: 8 }, (_, at) => ((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16))
  const runs = [...all.join(':').matchAll(/(?<![^:])0(?::0)+(?![^:])/g)].map(([run]) => run)
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best), '')
  if (longest === '') return all.join(':')
  const at = all.join(':').search(new RegExp(`(?<![^:])${longest}(?![^:])`))
  const text = all.join(':')
  return `${text.slice(0, at).replace(/:$/, '')}::${text.slice(at + longest.length).replace(/^:/, '')}`
}

/** Parses `a.b.c.d/n`, `x::y/n`, or a bare address as a network of one address. Clears the bits after the prefix. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = '', length, ...more] = text.split('/')
  const ip = parseIp(address)
  if (!ip || more.length > 0) return undefined
  const bits = ipBits(ip.family)
  if (length !== undefined && !/^\d{1,3}$/.test(length)) return undefined
  const prefix = length === undefined ? bits : Number(length)
  if (prefix > bits) return undefined
  return { ...ip, value: networkOf(ip, prefix), prefix }
}

export const formatCidr = (cidr: Cidr): string => `${formatIp(cidr)}/${cidr.prefix}`

export function contains(network: Cidr, ip: Ip): boolean {
  return network.family === ip.family && networkOf(ip, network.prefix) === network.value
}

/** Converts an IPv4-mapped IPv6 address (`::ffff:a.b.c.d`, RFC 4291 2.5.5.2) to IPv4. */
export function unmapped(ip: Ip): Ip {
  return ip.family === 6 && ip.value >> 32n === 0xffffn ? { family: 4, value: ip.value & 0xffffffffn } : ip
}

function networkOf({ family, value }: Ip, prefix: number): bigint {
  const host = BigInt(ipBits(family) - prefix)
  return (value >> host) << host
}

const groups = (text: string) => (text === '' ? [] : text.split(':').map(group => Number.parseInt(group, 16)))

function groupsOfV4(text: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = text.split('.').map(Number)
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
}

function fromParts(parts: readonly number[], bits: number): bigint {
  return parts.reduce((value, part) => (value << BigInt(bits)) | BigInt(part), 0n)
}
