/**
 * The gateway: forwards requests for a hostname to a healthy VM. Its only state is a cache of routes, so any number of
 * gateways can run.
 */
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { gatewaySubjects, type TrafficReport, trafficReportMs } from '../contract/gateway.ts'
import { newId } from '../lib/ids.ts'
import { openAccessLog } from './access-log.ts'
import { type BackendPools, createBackendPools } from './backends.ts'
import { startBastion } from './bastion/bastion.ts'
import { answerChallenge } from './challenge.ts'
import type { GatewayConfig } from './config.ts'
import type { Exchange } from './exchange.ts'
import { createGrpcSessions } from './grpc-sessions.ts'
import { peerOf } from './headers.ts'
import { createLimiter } from './limits.ts'
import { leavingOf, watchLeaving } from './leaving.ts'
import { listenHttp } from './listener.ts'
import { startCountsReporter } from './counts-report.ts'
import { countedOf, createRequestCounter } from './request-counts.ts'
import type { ProxyDeps } from './admission.ts'
import { type RouteTable, startRouteTable } from './route-table.ts'
import { startHaproxyPublisher } from './publish/haproxy.ts'
import { startPublishServer } from './publish/server.ts'
import { startTcpServices } from './tcp/services.ts'
import { startTlsServices } from './tcp/tls-services.ts'
import { openCertificates } from './tls/certificates.ts'
import { watchCertificateFiles } from './tls/files.ts'
import { listenTls } from './tls/listener.ts'
import { type Traffic, createTraffic } from './traffic.ts'
import { trustList } from './trust.ts'
import { createWaker } from './wake.ts'

export interface Gateway {
  readonly port: number
  /** Port for HTTPS; undefined: the gateway serves no HTTPS. */
  readonly tlsPort: number | undefined
  /** Port for TCP services over TLS; undefined: there are none. */
  readonly tcpTlsPort: number | undefined
  /** Port of the SSH bastion; undefined: the gateway has no bastion. */
  readonly sshPort: number | undefined
  /** Port on which an edge proxy of the site reads the routes; undefined: the gateway does not publish them. */
  readonly publishPort: number | undefined
  /** Number of admitted requests since the start. */
  served(): number
  /** Returns whether the gateway has received the routing table. */
  ready(): boolean
  /** Returns the version of the cached route for a hostname; undefined: no route. */
  routeVersion(hostname: string): number | undefined
  /** Accepts no new connections, gives pending requests `drainMs` to finish, then closes. */
  stop(drainMs?: number): Promise<void>
}

interface GatewayDeps {
  readonly bus: Bus
  readonly log: Logger
}

/**
 * Checks that the gateway's own ports are outside of the range of TCP services, because a service on such a port could
 * never be reached.
 * @throws Error
 */
function refuseOwnPorts({ port, bastion, tls, publish, tcp, tcpTls }: GatewayConfig): void {
  const own = [port, bastion?.port, tls.port, publish.port, tcpTls?.port].find(
    one => one !== undefined && tcp && one >= tcp.ports.first && one <= tcp.ports.last,
  )
  if (own === undefined) return
  const range = `${tcp?.ports.first}-${tcp?.ports.last}`
  throw new Error(`MOTE_TCP_PORTS="${range}" contains port ${own}, on which the gateway itself listens: choose others.`)
}

/** Starts the gateway. @throws Error when a port is in use; everything already started is stopped again */
export async function startGateway(config: GatewayConfig, deps: GatewayDeps): Promise<Gateway> {
  refuseOwnPorts(config)
  const gatewayId = newId()
  await using started = new AsyncDisposableStack()
  let drainMs = 0
  const table = await startRouteTable(deps)
  started.defer(() => table.stop())
  const pools = createBackendPools(config)
  started.defer(() => pools.close())
  const traffic = createTraffic(() => performance.now())
  keepPools(table, pools)
  const counter = createRequestCounter()
  const accessLog = config.accessLog === '' ? undefined : await openAccessLog(config.accessLog, gatewayId)
  started.defer(() => accessLog?.close())
  const { tls } = config
  const files = tls.certificates === '' ? undefined : await watchCertificateFiles(tls.certificates, deps.log)
  const certificates = await openCertificates({ ...deps, files, isRouted: name => table.find(name) !== undefined })
  started.defer(() => certificates.stop())
  const trusts = trustList(config.trustedProxies)
  /** Set below, once HTTPS listens. */
  let tlsPort: number | undefined
  const proxy: ProxyDeps = {
    trusts,
    grpc: createGrpcSessions(pools),
    challenge: exchange => answerChallenge(deps.bus, exchange).catch(() => false),
    redirects: tls.redirect && tls.port !== undefined,
    redirect: async exchange => {
      if (isSecureOutside(exchange, trusts) || !exchange.hostname) return undefined
      return (await certificates.find(exchange.hostname)) && tlsPort
    },
    hsts: tls.hstsSeconds > 0 ? `max-age=${tls.hstsSeconds}` : undefined,
    table,
    pools,
    traffic,
    limiter: createLimiter(config.limits, () => performance.now()),
    wake: createWaker({ ...deps, table, timeoutMs: config.wakeTimeoutMs }),
    ended: (exchange, status) => {
      accessLog?.write(exchange, status, exchange.request.httpVersion)
      const counted = countedOf(exchange, status)
      if (counted) counter.add(counted)
    },
    attempts: counter.attempts,
  }
  const counts = startCountsReporter(deps, counter)
  started.defer(() => counts.stop())
  const http = await listenHttp({ ...config, ...config.limits }, proxy, deps.log)
  started.defer(() => http.stop(drainMs))
  const https =
    tls.port === undefined
      ? undefined
      : await listenTls(
          { ...config.limits, host: config.host, port: tls.port, find: certificates.find },
          proxy,
          deps.log,
        )
  started.defer(() => https?.stop(drainMs))
  tlsPort = https?.port
  const services =
    config.tcp && startTcpServices({ ...config.limits, ...config.tcp, host: config.host }, { ...proxy, ...deps })
  started.defer(() => services?.stop(drainMs))
  const tlsServices =
    config.tcpTls &&
    (await startTlsServices(
      { ...config.limits, ...config.tcpTls, host: config.host },
      { ...proxy, ...deps, certificate: certificates.find },
    ))
  started.defer(() => tlsServices?.stop(drainMs))
  const bastion = config.bastion && (await startBastion(config.bastion, deps))
  started.defer(() => bastion?.stop())
  const published = await publishRoutes(config, table, http.port, deps.log)
  started.defer(() => published.stop())
  const reports = reportTraffic(deps, gatewayId, traffic, { table, pools })
  started.defer(() => reports.stop())
  const running = started.move()
  return {
    port: http.port,
    tlsPort,
    tcpTlsPort: tlsServices?.port,
    sshPort: bastion?.port,
    publishPort: published.port,
    served: traffic.total,
    ready: table.loaded,
    routeVersion: hostname => table.versionOf(hostname),
    async stop(graceMs = 5000) {
      drainMs = graceMs
      await running.disposeAsync()
    },
  }
}

/** Returns whether a trusted proxy terminated TLS for this request. */
const isSecureOutside = ({ request }: Exchange, trusts: (address: string) => boolean) =>
  trusts(peerOf(request)) && request.headers['x-forwarded-proto'] === 'https'

/** Drains the connection pool of a backend once no hostname of its app routes to it. */
function keepPools(table: RouteTable, pools: ReturnType<typeof createBackendPools>): void {
  table.onChange(route => {
    const backends = table.ofApp(route.appId).flatMap(one => [...one.backends, ...(one.canary?.backends ?? [])])
    const leaving = new Set(leavingOf(table, route.appId).map(({ vmId }) => vmId))
    pools.retain(route.appId, backends, route.drainSeconds * 1000, leaving)
  })
}

async function publishRoutes({ publish, host }: GatewayConfig, table: RouteTable, port: number, log: Logger) {
  const activator = { host: ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host, port }
  const haproxy = publish.haproxy && startHaproxyPublisher(table, publish.haproxy, log)
  const server =
    publish.port === undefined
      ? undefined
      : await startPublishServer({ ...publish, port: publish.port }, table, activator)
  return {
    port: server?.port,
    async stop() {
      await server?.stop()
      await haproxy?.stop()
    },
  }
}

function reportTraffic(
  deps: GatewayDeps,
  gatewayId: string,
  traffic: Traffic,
  { table, pools }: { readonly table: RouteTable; readonly pools: BackendPools },
) {
  const leaving = watchLeaving(table, pools, () => void report())
  let sinceMs = performance.now()
  const report = async (stops = false) => {
    const apps = traffic.take()
    const nowMs = performance.now()
    const [atMs, periodMs] = [Date.now(), nowMs - sinceMs]
    sinceMs = nowMs
    // Control uses only the differences between the times in a report, because the clocks of gateways may be wrong.
    const reported = apps.map(app => ({ ...app, lastRequestAtMs: atMs - (nowMs - app.lastRequestAtMs) }))
    const moves = leaving.take()
    const message: TrafficReport = {
      gatewayId,
      atMs,
      periodMs,
      ...(stops ? { stops } : {}),
      ...(moves ? { leaving: moves } : {}),
      apps: reported,
    }
    await deps.bus.publish(gatewaySubjects.traffic, message).catch(() => {})
  }
  const timer = setInterval(() => void report(), trafficReportMs)
  void report()
  return {
    /** Stops the timer, and sends a last report. */
    async stop() {
      clearInterval(timer)
      await report(true)
    },
  }
}
