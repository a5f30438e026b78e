/**
 * Admission of page servers' requests. The contract declares no credential for them, so the origin of a request
 * decides.
 */
import { timingSafeEqual } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import type { ControlConfig } from '../base/config.ts'
import { forbidden } from '../http/errors.ts'

export interface UpcallOrigin {
  readonly ip: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/**
 * Headers that proxies and browsers add. The address of such a request is that of a proxy, or of a visitor of another
 * site's page, so it does not identify a page server.
 */
const marks = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded-port',
  'x-forwarded-server',
  'x-real-ip',
  'x-client-ip',
  'cf-connecting-ip',
  'true-client-ip',
  'via',
  'origin',
  'referer',
  'sec-fetch-site',
]

const loopback = ['127.0.0.0/8', '::1/128']

/**
 * Admits requests from a configured network, or with the shared secret. Loopback is trusted only while the API itself
 * is served on a loopback address: otherwise, a TLS proxy on the same host may forward requests without adding a
 * header.
 * @returns a check that throws ApiError 403
 */
export function upcallAdmission(
  config: Pick<ControlConfig, 'storageNetworks' | 'publicUrl' | 'trustedProxies'> & {
    readonly databases: Pick<ControlConfig['databases'], 'storageSecret'>
  },
): (origin: UpcallOrigin) => void {
  const isLocal = isLoopbackUrl(config.publicUrl) && config.trustedProxies.length === 0
  const networks = blockList(config.storageNetworks.length === 0 && isLocal ? loopback : config.storageNetworks)
  const secret = config.databases.storageSecret
  return ({ ip, headers }) => {
    if (secret !== '' && equal(String(headers.authorization ?? ''), `Bearer ${secret}`)) return
    const plain = ip.replace(/^::ffff:/, '')
    const isDirect = marks.every(name => headers[name] === undefined)
    if (isDirect && networks.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4')) return
    throw forbidden(
      'Only storage nodes may send this request, and not through a proxy: see MOTE_STORAGE_NETWORKS and MOTE_STORAGE_SECRET.',
    )
  }
}

function isLoopbackUrl(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? ''
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d+){3}$/.test(host)
}

function blockList(cidrs: readonly string[]): BlockList {
  const networks = new BlockList()
  for (const network of cidrs) {
    const [address = '', bits] = network.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    networks.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return networks
}

function equal(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
