/**
 * Internet access for a program that resolves names itself: an HTTP proxy (CONNECT, RFC 9110 9.3.6) that resolves each
 * name once, checks the addresses, and connects to a checked one. Thus the targets of redirects and names whose address
 * changes are checked, too. The program must have no other network access; see `environment`.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { connect, createServer as createTcp, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { checkPublicHost, internetOnly, type HostPolicy, type Lookup, PrivateHostError } from './public-host.ts'

export interface GuardedProxy extends AsyncDisposable {
  /**
   * Environment variables that make a program use the proxy. Go's HTTP client connects to loopback addresses directly
   * even with these variables, so give such a program its own loopback device.
   */
  readonly environment: Readonly<Record<string, string>>
  /** Hostnames that were refused, in the order of the requests. */
  readonly refused: readonly string[]
}

const connectLimitMs = 10_000
/**
 * How long one direction of a tunnel may continue after the other one has ended: a large layer may still be transferred
 * over a slow line.
 */
const lingerMs = 600_000

/**
 * Where to listen for a program in its own network namespace: the unix socket of the proxy, and the port in the
 * namespace from which a relay forwards connections to the socket.
 */
export interface InsidePlace {
  readonly socket: string
  readonly port: number
}

/**
 * Starts a proxy that requires a password.
 * @param inside where to listen for a program in its own network namespace; absent: on the host's loopback
 */
export async function guardedProxy(
  policy: Pick<HostPolicy, 'allowed'> = internetOnly,
  lookup?: Lookup,
  inside?: InsidePlace,
): Promise<GuardedProxy> {
  const password = randomBytes(24).toString('hex')
  const expected = `Basic ${Buffer.from(`mote:${password}`).toString('base64')}`
  const refused: string[] = []
  const open = new Set<Duplex>()
  const server = createServer((_request, response) => response.writeHead(405).end())
  server.on('connect', (request: IncomingMessage, client: Duplex) => {
    open.add(client)
    client.on('close', () => open.delete(client)).on('error', () => client.destroy())
    if (request.headers['proxy-authorization'] !== expected) return deny(client, 407)
    const { host, port } = targetOf(request.url ?? '')
    if (port === 0) return deny(client, 400)
    checkPublicHost(host, policy, lookup)
      .then(addresses => connectTo(addresses, port))
      .then(
        outside => {
          client.write('HTTP/1.1 200 Connection established\r\n\r\n')
          both(client, outside)
        },
        (error: unknown) => {
          if (error instanceof PrivateHostError) refused.push(host)
          deny(client, error instanceof PrivateHostError ? 403 : 502)
        },
      )
  })
  if (inside) server.listen(inside.socket)
  else server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : inside?.port
  return {
    environment: proxyEnvironment(`http://mote:${password}@127.0.0.1:${port}`),
    refused,
    async [Symbol.asyncDispose]() {
      for (const client of open) client.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Returns the proxy variables in upper and lower case, because programs differ in which of them they read. */
export const proxyEnvironment = (url: string): Readonly<Record<string, string>> => ({
  HTTPS_PROXY: url,
  HTTP_PROXY: url,
  NO_PROXY: '',
  https_proxy: url,
  http_proxy: url,
  no_proxy: '',
})

/** Forwards connections from a unix socket to the host and port of a URL. */
export async function tunnelTo({ hostname, port }: URL, socket: string): Promise<AsyncDisposable> {
  const open = new Set<Duplex>()
  const server = createTcp({ allowHalfOpen: true }, client => {
    open.add(client)
    client.on('close', () => open.delete(client)).on('error', () => client.destroy())
    const outside = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80), allowHalfOpen: true })
    outside.on('error', () => client.destroy())
    both(client, outside)
  }).listen(socket)
  await once(server, 'listening')
  return {
    async [Symbol.asyncDispose]() {
      for (const client of open) client.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Parses `host:port` or `[IPv6]:port`. */
function targetOf(text: string): { readonly host: string; readonly port: number } {
  const [, host = '', digits = ''] = /^(.+):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  return { host, port: port <= 65_535 ? port : 0 }
}

function deny(client: Duplex, status: number): void {
  client.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}

/** Connects to the first address that accepts the connection. */
async function connectTo(addresses: readonly string[], port: number): Promise<Socket> {
  let failure: unknown = new Error('no address')
  for (const host of addresses)
    try {
      // A half-open connection still delivers data to the client that the server sent before it closed.
      const socket = connect({ host, port, allowHalfOpen: true })
      await once(socket, 'connect', { signal: AbortSignal.timeout(connectLimitMs) })
      return socket
    } catch (error) {
      failure = error
    }
  throw failure
}

/** Pipes data in both directions. Each direction ends separately; once one has ended, the other has a limited time. */
function both(one: Duplex, other: Duplex): void {
  const destroy = () => {
    one.destroy()
    other.destroy()
  }
  const ways = [pipeline(one, other), pipeline(other, one)]
  void Promise.race(ways).then(() => {
    const late = setTimeout(destroy, lingerMs).unref()
    void Promise.allSettled(ways).then(() => clearTimeout(late))
  }, destroy)
  void Promise.all(ways).catch(destroy)
}
