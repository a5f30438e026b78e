/**
 * TCP services: listens on the public port of each service, and forwards connections to the VMs of its app, unchanged.
 * Their routes are in the table under names that no hostname has, so waking, draining and moves work as for HTTP.
 */
import { type Server, type Socket, createServer } from 'node:net'
import { type Route, tcpPortOf } from '../../contract/gateway.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { PortRange } from '../../lib/port-range.ts'
import { limitConnections } from '../listener.ts'
import { serve, type TcpDeps } from './serve.ts'

export interface TcpOptions {
  readonly host: string
  /** The only ports on which this gateway listens for services. */
  readonly ports: PortRange
  /** Connections without data for this long are closed; 0: never. */
  readonly idleMs: number
  readonly connections: number
  readonly connectionsPerClient: number
}

export interface TcpServices {
  /** Takes no new connections, gives the open ones `drainMs`, then closes them. */
  stop(drainMs: number): Promise<void>
}

interface Listening {
  readonly sockets: Set<Socket>
  /** Takes no new connections; resolves when the open ones have ended. */
  close(): Promise<void>
}

/** A port that another program uses is tried again, ever more rarely. */
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
  // A client that has sent everything still reads.
  const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true, keepAlive: true })
  const sockets = new Set<Socket>()
  limitConnections(server, options, deps.trusts)
  server.on('connection', (client: Socket) => {
    // Above the limit of its address.
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

/** Listens as soon as the port is free. @returns closes the server, whether it listens or not */
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
