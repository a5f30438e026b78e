/**
 * Guards against requests that a user makes us send to places that only we reach (SSRF): a host is resolved once, its
 * addresses are judged, and the connection goes to one of those that were judged. Redirects are not followed.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import type { RequestInit, Response } from 'undici'
import { type Cidr, contains, type Ip, parseCidr, parseIp, unmapped } from './cidr.ts'

/** Not of the internet: IANA's special-purpose registries (RFC 6890), and what translates into them. */
const privateNetworks = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/3', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001:db8::/32', '2002::/16'],
  ...['fc00::/7', 'fe80::/10', 'fec0::/10', 'ff00::/8'],
].flatMap(text => parseCidr(text) ?? [])

/** What an operator lets through besides the internet. */
export interface HostPolicy {
  /** Networks; `everything` for tests and closed installations. */
  readonly allowed: readonly Cidr[]
  /** Without TLS. */
  readonly plainHttp: boolean
}

export const internetOnly: HostPolicy = { allowed: [], plainHttp: false }

export class PrivateHostError extends Error {
  readonly code = 'private_address'
}

export type Lookup = (host: string) => Promise<readonly string[]>

const lookupAll: Lookup = async host => (await systemLookup(host, { all: true })).map(({ address }) => address)

/** Whether a host on the internet may be at this address. What is no address is not. */
export function isPublicAddress(address: string, { allowed }: Pick<HostPolicy, 'allowed'> = internetOnly): boolean {
  const ip = parseIp(address)
  return ip !== undefined && isUsable(unmapped(ip), allowed)
}

const isUsable = (ip: Ip, allowed: readonly Cidr[]) =>
  allowed.some(network => contains(network, ip)) || !privateNetworks.some(network => contains(network, ip))

/**
 * The addresses to connect to, and no others: asking again could answer something else (DNS rebinding).
 * @param host a name or an address, IPv6 with or without brackets
 * @throws PrivateHostError when all it has are private; what `lookup` throws when it has none
 */
export async function checkPublicHost(
  host: string,
  policy: Pick<HostPolicy, 'allowed'> = internetOnly,
  lookup: Lookup = lookupAll,
): Promise<readonly string[]> {
  const bare = host.replace(/^\[|\]$/g, '')
  const found = parseIp(bare) ? [bare] : await lookup(bare)
  const usable = found.filter(address => isPublicAddress(address, policy))
  if (usable.length > 0) return usable
  throw new PrivateHostError(`${bare} has a private address, which only an operator may allow`)
}

/**
 * `fetch` for addresses that users give. A redirect is an error: where it leads has not been judged.
 * @throws PrivateHostError, TypeError for other schemes than https (and http where the policy allows it)
 */
export async function safeFetch(
  address: string,
  init: Omit<RequestInit, 'dispatcher' | 'redirect'> = {},
  policy: HostPolicy = internetOnly,
  lookup: Lookup = lookupAll,
): Promise<Response> {
  const url = new URL(address)
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && policy.plainHttp))
    throw new TypeError(
      `only ${policy.plainHttp ? 'http and https' : 'https'} addresses are asked, not ${url.protocol}`,
    )
  const addresses = await checkPublicHost(url.hostname, policy, lookup)
  const pinned = addresses.map(one => ({ address: one, family: one.includes(':') ? 6 : 4 }))
  const [first] = pinned
  if (!first) throw new PrivateHostError(`${url.hostname} has no address`)
  const { Agent, fetch } = await import('undici')
  const dispatcher = new Agent({
    connect: {
      lookup: (_host, { all }, done) => (all ? done(null, pinned) : done(null, first.address, first.family)),
    },
  })
  try {
    return await fetch(url, { ...init, dispatcher, redirect: 'error' })
  } finally {
    // Once the body has been read; nobody else uses these connections.
    void dispatcher.close()
  }
}
