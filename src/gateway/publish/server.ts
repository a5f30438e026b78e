/**
 * Serves the routes to the site's edge proxy, on loopback. Traefik's HTTP provider polls `/traefik`; an operator
 * downloads `/haproxy.cfg` once; process supervisors of this gateway query `/ready`.
 */
import { type ServerResponse, createServer } from 'node:http'
import type { RouteTable } from '../route-table.ts'
import { listen } from '../listener.ts'
import { type HaproxyShape, haproxyConfig } from './haproxy-config.ts'
import type { Activator } from './names.ts'
import { traefikConfiguration } from './traefik.ts'

export interface PublishConfig {
  /** Port on loopback on which the routes are served; undefined: they are not served. */
  readonly port: number | undefined
  /** Traefik's entry points for which the routes apply; empty: all entry points. */
  readonly entryPoints: readonly string[]
  /** The HAProxy that the gateway configures; undefined: none. */
  readonly haproxy: HaproxyShape | undefined
}

/** Starts the server. @throws Error when the port is in use */
export async function startPublishServer(
  config: PublishConfig & { readonly port: number },
  table: RouteTable,
  activator: Activator,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const pages: Readonly<Record<string, (response: ServerResponse) => void>> = {
    '/ready': response => response.writeHead(table.loaded() ? 200 : 503).end(),
    '/traefik': response => {
      // Respond with an error, because Traefik would remove every route if the configuration were empty.
      if (!table.loaded()) return void response.writeHead(503).end()
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(traefikConfiguration(table.all(), activator, config.entryPoints)))
    },
    '/haproxy.cfg': response => {
      if (!config.haproxy) return void response.writeHead(404).end('MOTE_HAPROXY_SOCKET is not set\n')
      response.setHeader('content-type', 'text/plain; charset=utf-8')
      response.end(haproxyConfig(config.haproxy, activator, ':80'))
    },
  }
  const server = createServer((request, response) => {
    const page = pages[request.url ?? '']
    if (page && request.method === 'GET') page(response)
    else response.writeHead(404).end()
  })
  const port = await listen(server, { host: '127.0.0.1', port: config.port })
  return {
    port,
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
