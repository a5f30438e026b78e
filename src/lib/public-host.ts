/**
 * Prevents requests to internal addresses on behalf of users (SSRF): a host is resolved once, its addresses are
 * checked, and the connection uses a checked address.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import { type Cidr, contains, type Ip, parseCidr, parseIp, unmapped } from './cidr.ts'

/**
 * Networks that are not on the public internet: IANA's special-purpose registries (RFC 6890), and ranges that translate
 * to such networks.
 */
const privateNetworks = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/3', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001:db8::/32', '2002::/16'],
  ...['fc00::/7', 'fe80::/10', 'fec0::/10', 'ff00::/8'],
].flatMap(text => parseCidr(text) ?? [])

/** Which networks an operator allows in addition to the public internet. */
export interface HostPolicy {
  /** Networks that may be accessed although they are not public. Tests and closed installations allow `everything`. */
  readonly allowed: readonly Cidr[]
}

export const internetOnly: HostPolicy = { allowed: [] }

export class PrivateHostError extends Error {
  readonly code = 'private_address'
}

export type Lookup = (host: string) => Promise<readonly string[]>

const lookupAll: Lookup = async host => (await systemLookup(host, { all: true })).map(({ address }) => address)

/** Returns whether the address is public or allowed; false for an invalid address. */
export function isPublicAddress(address: string, { allowed }: HostPolicy = internetOnly): boolean {
  const ip = parseIp(address)
  return ip !== undefined && isUsable(unmapped(ip), allowed)
}

const isUsable = (ip: Ip, allowed: readonly Cidr[]) =>
  allowed.some(network => contains(network, ip)) || !privateNetworks.some(network => contains(network, ip))

/**
 * Resolves a host and returns its checked addresses. Connect only to these, because another lookup could return
 * different ones (DNS rebinding).
 * @param host a name or an address, IPv6 with or without brackets
 * @throws PrivateHostError when all addresses are private; errors of `lookup` for an unknown name
 */
export async function checkPublicHost(
  host: string,
  policy: HostPolicy = internetOnly,
  lookup: Lookup = lookupAll,
): Promise<readonly string[]> {
  const bare = host.replace(/^\[|\]$/g, '')
  const found = parseIp(bare) ? [bare] : await lookup(bare)
  const usable = found.filter(address => isPublicAddress(address, policy))
  if (usable.length > 0) return usable
  throw new PrivateHostError(`${bare} has a private address, which only an operator may allow`)
}
