/** The edge: routes a hostname to a healthy microVM. Holds no state but a cache of routes; run as many as you like. */
import { type IncomingMessage, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BlockList, isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { gatewaySubjects, type TrafficReport } from '../contract/gateway.ts'
import { trackConnections } from '../lib/http-close.ts'
import { newId } from '../lib/ids.ts'
import { createBackendPools } from './backends.ts'
import { startBastion } from './bastion/bastion.ts'
import type { GatewayConfig } from './config.ts'
import { sendPage } from './pages.ts'
import { type ProxyDeps, handleRequest } from './proxy.ts'
import { startRouteTable } from './route-table.ts'
import { createTraffic } from './traffic.ts'
import { handleUpgrade } from './upgrade.ts'
import { createWaker } from './wake.ts'

const reportMs = 5000

export interface Gateway {
  readonly port: number
  /** Of the SSH bastion; undefined without one. */
  readonly sshPort: number | undefined
  /** True once it has the routes. */
  ready(): boolean
  /** Takes no new connections, lets requests under way finish for `drainMs`, then closes. */
  stop(drainMs?: number): Promise<void>
}

export async function startGateway(
  config: GatewayConfig,
  deps: { readonly bus: Bus; readonly log: Logger },
): Promise<Gateway> {
  const gatewayId = newId()
  const table = await startRouteTable(deps)
  const pools = createBackendPools(config)
  const traffic = createTraffic(Date.now)
  table.onChange(route => pools.retain(route.appId, route.state === 'gone' ? [] : route.backends))
  const proxy: ProxyDeps = {
    table,
    pools,
    traffic,
    trusts: trustList(config.trustedProxies),
    wake: createWaker({ ...deps, table, timeoutMs: config.wakeTimeoutMs }),
  }
  // requestTimeout 0: an upload may take as long as it likes; slow headers are cut by headersTimeout.
  const server = createServer({ keepAliveTimeout: 65_000, headersTimeout: 30_000, requestTimeout: 0, noDelay: true })
  server.on('request', (request, response) => {
    handleRequest(proxy, request, response).catch((cause: unknown) => {
      deps.log.error({ err: cause, host: request.headers.host }, 'a request failed inside the gateway')
      if (!response.headersSent) sendPage(request, response, 'bad_gateway')
      else response.destroy()
    })
  })
  const closeConnections = trackConnections(server)
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    handleUpgrade(proxy, request, socket, head).catch((cause: unknown) => {
      deps.log.error({ err: cause, host: request.headers.host }, 'an upgrade failed inside the gateway')
      socket.destroy()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(config.port, config.host, resolve)
  })
  const bastion = config.bastion && (await startBastion(config.bastion, deps))
  const reports = setInterval(() => {
    const apps = traffic.take()
    if (apps.length === 0) return
    const report: TrafficReport = { gatewayId, atMs: Date.now(), apps }
    deps.bus.publish(gatewaySubjects.traffic, report).catch(() => {})
  }, reportMs)

  return {
    port: (server.address() as AddressInfo).port,
    sshPort: bastion?.port,
    ready: table.loaded,
    async stop(drainMs = 5000) {
      clearInterval(reports)
      await bastion?.stop()
      await closeConnections(drainMs, new Promise<void>(resolve => server.close(() => resolve())))
      await table.stop()
      await pools.close()
    },
  }
}

/** Addresses and CIDRs, e.g. `10.0.0.0/8`. @throws Error naming the entry that is neither. */
function trustList(entries: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/')
    const family = isIP(address)
    if (family === 0) throw new Error(`trusted proxy "${entry}" is not an address or CIDR such as 10.0.0.0/8`)
    list.addSubnet(
      address,
      bits === undefined ? (family === 4 ? 32 : 128) : Number(bits),
      family === 4 ? 'ipv4' : 'ipv6',
    )
  }
  return address => {
    const plain = address.replace(/^::ffff:/, '')
    const family = isIP(plain)
    return family !== 0 && list.check(plain, family === 4 ? 'ipv4' : 'ipv6')
  }
}
