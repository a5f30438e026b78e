/** How skopeo reaches a registry. It resolves names itself, and goes where the registry sends it for blobs and tokens. */
import { join } from 'node:path'
import { hostProxy } from '../../lib/child-env.ts'
import { guardedProxy, proxyEnvironment, tunnelTo } from '../../lib/guarded-proxy.ts'
import { internetOnly, type Lookup } from '../../lib/public-host.ts'
import { type OneWay, wayOutPort } from './oneway.ts'

export interface WayOut extends AsyncDisposable {
  readonly environment: Readonly<Record<string, string>>
  /** Names that were refused, in the order in which they were asked for. */
  readonly refused: readonly string[]
  /** The command that starts this one so that it has no other way. */
  command(program: string, args: readonly string[]): { readonly program: string; readonly args: readonly string[] }
}

export interface Ways {
  readonly lookup?: Lookup
  /** Left out, or where the host has none: the program keeps the host's network, and asks its loopback itself. */
  readonly oneWay?: () => Promise<OneWay>
}

const asIs: WayOut['command'] = (program, args) => ({ program, args })

/** To a registry that an operator has named. */
export const directly: WayOut = {
  environment: {},
  refused: [],
  command: asIs,
  [Symbol.asyncDispose]: () => Promise.resolve(),
}

/**
 * To what users name: through a proxy that judges each address it connects to, or the one that is the host's own way out.
 * Go's HTTP client asks addresses of loopback without a proxy (`ProxyFromEnvironment` of net/http), so the program has a
 * loopback of its own, where there is nothing else.
 * @param dir of nobody else's, for the socket
 */
export async function guardedWay(dir: string, { lookup, oneWay }: Ways): Promise<WayOut> {
  const { program: starter } = (await oneWay?.()) ?? {}
  const socket = join(dir, 'proxy.sock')
  const command: WayOut['command'] = (program, args) =>
    starter === undefined
      ? { program, args }
      : { program: starter, args: [socket, String(wayOutPort), program, ...args] }
  const upstream = hostProxy()
  // One that is spoken to over TLS proves its name, which would not be that of the way out.
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
