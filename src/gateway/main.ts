/** The edge: routes a hostname to a healthy microVM. Holds no state but a cache of routes; run as many as you like. */
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { gatewaySubjects, type TrafficReport } from '../contract/gateway.ts'
import { newId } from '../lib/ids.ts'
import { openAccessLog } from './access-log.ts'
import { createBackendPools } from './backends.ts'
import { startBastion } from './bastion/bastion.ts'
import type { GatewayConfig } from './config.ts'
import { createLimiter } from './limits.ts'
import { listenHttp } from './listener.ts'
import type { ProxyDeps } from './proxy.ts'
import { type RouteTable, startRouteTable } from './route-table.ts'
import { type Traffic, createTraffic } from './traffic.ts'
import { trustList } from './trust.ts'
import { createWaker } from './wake.ts'

const reportMs = 5000

export interface Gateway {
  readonly port: number
  /** Of the SSH bastion; undefined without one. */
  readonly sshPort: number | undefined
  /** True once it has the routes. */
  ready(): boolean
  /** Of what it knows of a hostname; undefined: nothing. */
  routeVersion(hostname: string): number | undefined
  /** Takes no new connections, lets requests under way finish for `drainMs`, then closes. */
  stop(drainMs?: number): Promise<void>
}

interface GatewayDeps {
  readonly bus: Bus
  readonly log: Logger
}

/** @throws Error when a port is taken; nothing is left running then. */
export async function startGateway(config: GatewayConfig, deps: GatewayDeps): Promise<Gateway> {
  const gatewayId = newId()
  await using started = new AsyncDisposableStack()
  let drainMs = 0
  const table = await startRouteTable(deps)
  started.defer(() => table.stop())
  const pools = createBackendPools(config)
  started.defer(() => pools.close())
  const traffic = createTraffic(() => performance.now())
  keepPools(table, pools)
  const accessLog = config.accessLog === '' ? undefined : await openAccessLog(config.accessLog, gatewayId)
  started.defer(() => accessLog?.close())
  const proxy: ProxyDeps = {
    table,
    pools,
    traffic,
    limiter: createLimiter(config.limits, () => performance.now()),
    trusts: trustList(config.trustedProxies),
    wake: createWaker({ ...deps, table, timeoutMs: config.wakeTimeoutMs }),
    ended: accessLog && ((exchange, status) => accessLog.write(exchange, status, exchange.request.httpVersion)),
  }
  const http = await listenHttp({ ...config, ...config.limits }, proxy, deps.log)
  started.defer(() => http.stop(drainMs))
  const bastion = config.bastion && (await startBastion(config.bastion, deps))
  started.defer(() => bastion?.stop())
  const reports = reportTraffic(deps, gatewayId, traffic)
  started.defer(() => reports.stop())
  const running = started.move()
  return {
    port: http.port,
    sshPort: bastion?.port,
    ready: table.loaded,
    routeVersion: hostname => table.versionOf(hostname),
    async stop(graceMs = 5000) {
      drainMs = graceMs
      await running.disposeAsync()
    },
  }
}

/** An app may be reached by several names: a backend is let go of when none of them leads to it any more. */
function keepPools(table: RouteTable, pools: ReturnType<typeof createBackendPools>): void {
  table.onChange(route => {
    const backends = table.ofApp(route.appId).flatMap(one => one.backends)
    pools.retain(route.appId, backends, route.drainSeconds * 1000)
  })
}

function reportTraffic(deps: GatewayDeps, gatewayId: string, traffic: Traffic) {
  let sinceMs = performance.now()
  const report = async () => {
    const apps = traffic.take()
    const nowMs = performance.now()
    const [atMs, periodMs] = [Date.now(), nowMs - sinceMs]
    sinceMs = nowMs
    // Clocks of gateways may jump; what control needs are ages.
    const told = apps.map(app => ({ ...app, lastRequestAtMs: atMs - (nowMs - app.lastRequestAtMs) }))
    if (told.length === 0) return
    const message: TrafficReport = { gatewayId, atMs, periodMs, apps: told }
    await deps.bus.publish(gatewaySubjects.traffic, message).catch(() => {})
  }
  const timer = setInterval(() => void report(), reportMs)
  return {
    /** Tells what it has not told yet. */
    async stop() {
      clearInterval(timer)
      await report()
    },
  }
}
