/**
 * TCP services: listens on the public port of each service, and forwards connections unchanged to the VMs of its app.
 * Their routes are in the route table under keys that cannot be hostnames, so waking, draining and moves work as for
 * HTTP.
 */
import { type Server, type Socket, createServer } from 'node:net'
import { type Route, tcpPortOf } from '../../contract/gateway.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { PortRange } from '../../lib/port-range.ts'
import { limitConnections } from '../listener.ts'
import { serve, type TcpDeps } from './serve.ts'

export interface TcpOptions {
  readonly host: string
  /** Range of ports on which this gateway may listen for services. */
  readonly ports: PortRange
  /** Time without data after which a connection is closed, in ms; 0: never. */
  readonly idleMs: number
  readonly connections: number
  readonly connectionsPerClient: number
}

export interface TcpServices {
  /** Accepts no new connections, gives open ones `drainMs` to end, then closes them. */
  stop(drainMs: number): Promise<void>
}

interface Listening {
  readonly sockets: Set<Socket>
  /** Accepts no new connections. Resolves when the open ones have ended. */
  close(): Promise<void>
}

/** Delays between attempts to listen on a port that another program uses. */
const again = { baseMs: 1000, capMs: 60_000 }

export function startTcpServices(options: TcpOptions, deps: TcpDeps): TcpServices {
  const open = new Map<number, Listening>()
  const { first, last } = options.ports
  const follow = (route: Route) => {
    const port = tcpPortOf(route.hostname)
    if (port === undefined || port < first || port > last) return
    const known = open.get(port)
    if (route.state === 'gone') {
      open.delete(port)
      void known?.close()
      for (const socket of known?.sockets ?? []) socket.destroy()
    } else if (!known) open.set(port, listen(options, deps, port, route.hostname))
  }
  for (const route of deps.table.services()) follow(route)
  deps.table.onChange(follow)
  return {
    async stop(drainMs) {
      const all = [...open.values()]
      open.clear()
      const cut = setTimeout(() => {
        for (const { sockets } of all) for (const socket of sockets) socket.destroy()
      }, drainMs)
      await Promise.all(all.map(one => one.close()))
      clearTimeout(cut)
    },
  }
}

function listen(options: TcpOptions, deps: TcpDeps, port: number, name: string): Listening {
  // The client side stays half-open, because a client that has sent everything still reads.
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true, keepAlive: true })
  const sockets = new Set<Socket>()
  limitConnections(server, options, deps.trusts)
  server.on('connection', (client: Socket) => {
    // `limitConnections` has already closed a connection above the client's limit.
    if (client.destroyed) return
    sockets.add(client)
    client.once('close', () => sockets.delete(client)).on('error', () => client.destroy())
    if (options.idleMs > 0) client.setTimeout(options.idleMs, () => client.destroy())
    serve(deps, name, client).catch((cause: unknown) => {
      deps.log.error({ err: cause, port }, 'a TCP connection failed inside the gateway')
      client.destroy()
    })
  })
  const closing = listenUntilClosed(server, options.host, port, err =>
    deps.log.error({ err, port }, 'cannot listen for a TCP service; retrying'),
  )
  return { sockets, close: closing }
}

/** Listens as soon as the port is free. @returns a function that closes the server, even if it does not listen yet */
function listenUntilClosed(server: Server, host: string, port: number, onError: (error: Error) => void) {
  let timer: NodeJS.Timeout | undefined
  let failures = 0
  let isClosed = false
  server.on('listening', () => {
    failures = 0
  })
  server.on('error', error => {
    if (isClosed) return
    onError(error)
    timer = setTimeout(() => void server.listen(port, host), backoffMs(failures++, Math.random(), again))
  })
  server.listen(port, host)
  return () => {
    isClosed = true
    clearTimeout(timer)
    return new Promise<void>(resolve => void server.close(() => resolve()))
  }
}
