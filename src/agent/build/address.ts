import { lookup } from 'node:dns/promises'
import { contains, parseCidr, parseIp, unmapped } from '../../lib/cidr.ts'
import { BuildFault } from './fault.ts'

export interface CheckedUrl {
  readonly href: string
  readonly scheme: 'http' | 'https'
  /** `host:port:address` for curl, so that the address that was checked is the one that is used. */
  readonly resolve: string
}

/** Not of the internet: IANA's special-purpose registries (RFC 6890), and what translates into them. */
const privateNetworks = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/3', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001:db8::/32', '2002::/16'],
  ...['fc00::/7', 'fe80::/10', 'fec0::/10', 'ff00::/8'],
].flatMap(text => parseCidr(text) ?? [])

/** Whether a host on the internet may be at this address. What is no address is not. */
export function isPublicAddress(address: string): boolean {
  const ip = parseIp(address)
  return ip !== undefined && !privateNetworks.some(network => contains(network, unmapped(ip)))
}

/** @throws BuildFault for what is no http(s) address, and for private ones unless they are allowed */
export async function checkUrl(text: string, allowPrivate: boolean): Promise<CheckedUrl> {
  const url = URL.parse(text)
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && allowPrivate))
    throw new BuildFault(`A repository is fetched over https only, not from ${text.slice(0, 100)}`)
  const { hostname } = url
  const found = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }).catch((cause: unknown) => {
    throw new BuildFault(`There is no host ${hostname}.`, { cause })
  })
  const usable = allowPrivate ? found : found.filter(({ address }) => isPublicAddress(address))
  const [first] = usable
  if (!first)
    throw new BuildFault(`${hostname} has a private address; an operator may allow those (MOTE_GIT_PRIVATE_HOSTS).`)
  const scheme = url.protocol === 'https:' ? 'https' : 'http'
  const port = url.port || (scheme === 'https' ? '443' : '80')
  const address = first.family === 6 ? `[${first.address}]` : first.address
  return { href: url.href, scheme, resolve: `${hostname}:${port}:${address}` }
}
