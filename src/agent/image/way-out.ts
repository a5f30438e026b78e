/**
 * Controls how skopeo connects to a registry. This is necessary because skopeo resolves names itself, and follows the
 * registry's redirects for blobs and tokens.
 */
import { join } from 'node:path'
import { hostProxy } from '../../lib/child-env.ts'
import { guardedProxy, proxyEnvironment, tunnelTo } from '../../lib/guarded-proxy.ts'
import { internetOnly, type Lookup } from '../../lib/public-host.ts'
import { type OneWay, wayOutPort } from './oneway.ts'

export interface WayOut extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>
  /** Hostnames to which the proxy refused to connect, in the order of the requests. */
  readonly refused: readonly string[]
  /** Returns the command wrapped so that the program can connect to the proxy only. */
  command(program: string, args: readonly string[]): { readonly program: string; readonly args: readonly string[] }
}

export interface Ways {
  readonly lookup?: Lookup
  /**
   * Finds the starter program that isolates skopeo. If undefined or unsupported on the host, skopeo can connect to the
   * host's loopback.
   */
  readonly oneWay?: () => Promise<OneWay>
}

const asIs: WayOut['command'] = (program, args) => ({ program, args })

/** For registries that the operator configured: skopeo connects without restrictions. */
export const directly: WayOut = {
  environment: {},
  refused: [],
  command: asIs,
  [Symbol.asyncDispose]: () => Promise.resolve(),
}

/**
 * For registries that users name: connects through a proxy that checks each address, or through the host's own proxy.
 * Go's HTTP client bypasses proxies for loopback addresses (`ProxyFromEnvironment` of net/http), so skopeo gets an
 * empty loopback device of its own.
 * @param dir private directory for the socket
 */
export async function guardedWay(dir: string, { lookup, oneWay }: Ways): Promise<WayOut> {
  const { program: starter } = (await oneWay?.()) ?? {}
  const socket = join(dir, 'proxy.sock')
  const command: WayOut['command'] = (program, args) =>
    starter === undefined
      ? { program, args }
      : { program: starter, args: [socket, String(wayOutPort), program, ...args] }
  const upstream = hostProxy()
  // A forwarder on the loopback device cannot stand for a proxy that is reached over TLS, because its certificate is
  // for the proxy's name.
  if (upstream && (starter === undefined || upstream.protocol !== 'http:')) return directly
  const inside = { socket, port: wayOutPort }
  if (!upstream) {
    const proxy = await guardedProxy(internetOnly, lookup, starter === undefined ? undefined : inside)
    return { ...proxy, command }
  }
  const tunnel = await tunnelTo(upstream, socket)
  const address = new URL(upstream)
  address.host = `127.0.0.1:${wayOutPort}`
  return { environment: proxyEnvironment(address.href), refused: [], command, ...tunnel }
}
