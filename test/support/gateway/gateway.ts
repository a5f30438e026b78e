/** A gateway on an in-memory bus, with a route table that the test controls and real HTTP servers as backends. */
import { once } from 'node:events'
import { type IncomingMessage, type RequestListener, type Server, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import { createMemoryBus } from '../../../src/bus/memory.ts'
import type { Bus } from '../../../src/bus/bus.ts'
import { type Backend, type Route, type TrafficReport, gatewaySubjects } from '../../../src/contract/gateway.ts'
import { until } from '../wait.ts'
import { type GatewayConfig, gatewayDefaults } from '../../../src/gateway/config.ts'
import { type Gateway, startGateway } from '../../../src/gateway/main.ts'

export const hostname = 'hello-demo.localhost'

export interface TestApp extends Backend {
  readonly server: Server
  /** Returns the number of requests that the backend has received. */
  readonly hits: () => number
}

export interface GatewayFixture extends AsyncDisposable {
  readonly bus: Bus
  readonly gateway: Gateway
  readonly gateways: readonly Gateway[]
  readonly wakes: string[]
  readonly reports: TrafficReport[]
  /** Returns how often gateways have requested the route table. */
  asked(): number
  /** Starts another gateway on the same bus. */
  add(config?: Partial<GatewayConfig>): Promise<Gateway>
  backend(handler: RequestListener): Promise<TestApp>
  /** Changes the route table without a notification to gateways. */
  commit(change: Partial<Route>): Route
  /** Changes the route table and notifies gateways. Resolves once every gateway has applied the route. */
  publish(change: Partial<Route>): Promise<void>
  get(path?: string, options?: AskOptions): Promise<Asked>
}

export interface AskOptions {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly port?: number
}
export interface Asked {
  readonly status: number
  readonly body: string
  readonly headers: IncomingMessage['headers']
}

export async function gatewayFixture(config: Partial<GatewayConfig> = {}): Promise<GatewayFixture> {
  const cleanup = new AsyncDisposableStack()
  const bus = createMemoryBus()
  cleanup.defer(() => bus.close())
  const table = new Map<string, Route>()
  const wakes: string[] = []
  const reports: TrafficReport[] = []
  const gateways: Gateway[] = []
  let version = 0
  let asked = 0
  await bus.serve(gatewaySubjects.routes, async () => {
    asked++
    return { version: version + 1, routes: [...table.values()] }
  })
  await bus.serve(gatewaySubjects.wake, data => {
    wakes.push((data as { appId: string }).appId)
    return {}
  })
  await bus.subscribe(gatewaySubjects.traffic, message => void reports.push(message.data as TrafficReport))
  const add = async (more: Partial<GatewayConfig> = {}) => {
    const all = { ...gatewayDefaults, host: '127.0.0.1', port: 0, wakeTimeoutMs: 3000, ...config, ...more }
    const gateway = await startGateway(all, { bus, log: pino({ level: 'silent' }) })
    gateways.push(gateway)
    cleanup.defer(() => gateway.stop(100))
    await until(() => gateway.ready(), { what: 'the gateway to load its routes' })
    return gateway
  }
  const gateway = await add()
  let backends = 0
  const backend = async (handler: RequestListener): Promise<TestApp> => {
    let hits = 0
    const server = createServer((req, res) => {
      hits++
      handler(req, res)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    cleanup.defer(() => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    return { server, host: '127.0.0.1', port, vmId: `vm-${++backends}`, hits: () => hits }
  }
  const commit = (change: Partial<Route>) => {
    const plain = { hostname, projectId: 'p', appId: 'a', state: 'live', backends: [], drainSeconds: 1 } as const
    const made = { ...plain, ...change, version: ++version }
    const plainBackend = ({ vmId, host, port, resetsClosed }: Backend): Backend => {
      return { vmId, host, port, ...(resetsClosed ? { resetsClosed } : {}) }
    }
    const route: Route = { ...made, backends: made.backends.map(plainBackend) }
    table.set(route.hostname, route)
    return route
  }
  const publish = async (change: Partial<Route>) => {
    const route = commit(change)
    await bus.publish(gatewaySubjects.routeChanged, route)
    for (const one of gateways)
      await until(() => (one.routeVersion(route.hostname) ?? 0) >= route.version, {
        what: 'the gateway to apply the route',
      })
  }
  const get = (path = '/', { method = 'GET', headers = {}, port = gateway.port }: AskOptions = {}) =>
    new Promise<Asked>((resolve, reject) => {
      const asked = request({ port, path, method, headers: { host: hostname, ...headers }, agent: false }, res => {
        let body = ''
        res.setEncoding('utf8').on('data', chunk => (body += chunk))
        res.on('end', () => resolve({ status: res.statusCode ?? 0, body, headers: res.headers })).on('error', reject)
      })
      asked.on('error', reject).end()
    })
  return {
    bus,
    gateway,
    gateways,
    wakes,
    reports,
    asked: () => asked,
    add,
    backend,
    commit,
    publish,
    get,
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  }
}
