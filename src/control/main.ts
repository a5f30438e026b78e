/**
 * The control plane: API, workflow runner, sweeps, outbox relay, and the receivers of messages from hosts and gateways.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import type { Db } from '../db/db.ts'
import { createRunner } from '../engine/runner.ts'
import { createSweeper } from '../engine/sweeper.ts'
import { systemClock } from '../lib/clock.ts'
import { trackConnections } from '../lib/http-close.ts'
import { watchStalls } from '../lib/stalls.ts'
import type { Tally } from '../lib/tally.ts'
import { createVault } from '../lib/vault.ts'
import { type ControlDeps, features, workflows, sweeps } from './app.ts'
import { auditWriter } from './audit/index.ts'
import {
  checkInstallationSecret,
  createAuthenticator,
  createIdempotencyStore,
  endRevokedStreams,
} from './auth/index.ts'
import { startBuildReceiver } from './builds/index.ts'
import type { ControlConfig } from './base/config.ts'
import { startBastionKeyReceiver, startLoginReceiver } from './bastion/index.ts'
import { databaseLogins, startTunnelReceiver } from './databases/index.ts'
import { dashboardPages } from './dashboard/index.ts'
import { startCertificateServer } from './domains/index.ts'
import { startRelay } from './events/index.ts'
import { startHostReceiver } from './fleet/index.ts'
import { startGatewayReceiver } from './scaling/index.ts'
import { startCountsReceiver } from './history/index.ts'
import { createLiveStats } from './hosts/index.ts'
import { createMetrics, createMetricsServer } from './http/metrics.ts'
import { createRateLimiter } from './http/rate-limit.ts'
import { apiDocsPages } from './api-docs/index.ts'
import { createServer } from './http/server.ts'
import { allOperations } from './operations.ts'
import { shareRateLimits } from './http/shared-rate-limit.ts'
import { startNetworkPublisher } from './network/index.ts'
import { planLimitNotices } from './notifications/index.ts'
import { startRegistryLogins } from './registries/index.ts'
import { startRoutePublisher } from './routing/index.ts'
import { appLogins, startShellReceiver } from './vm-sessions/index.ts'

/** Time that open requests have to finish at shutdown. */
const drainMs = 10_000

export interface ControlOptions {
  readonly config: ControlConfig
  readonly db: Db
  readonly bus: Bus
  readonly log: Logger
  readonly host: string
  /** Port of the API; 0: any free port. */
  readonly port: number
  /** Port of the listener for Prometheus; absent: metrics are not served. */
  readonly metricsPort?: number
  /** Counter of guest requests that an agent in this process refused, included in the metrics. */
  readonly refused?: Tally
  /** True to check every JSON response against its schema, in tests. */
  readonly checkAnswers?: boolean
}

export interface Control {
  readonly port: number
  readonly url: string
  /**
   * Waits until open requests and running workflow steps have finished, and ends streams. The caller closes the
   * database and the bus.
   */
  stop(): Promise<void>
}

/**
 * Starts the control plane.
 * @throws Error when a port is taken or the configured secret does not belong to the database, after stopping what was
 * already started
 */
export async function startControl(options: ControlOptions): Promise<Control> {
  const { config, db, bus, log } = options
  const clock = systemClock
  const deps: ControlDeps = {
    config,
    db,
    bus,
    log,
    clock,
    vault: createVault(config.secrets),
    live: createLiveStats(clock),
  }
  await checkInstallationSecret(db, deps.vault)
  await using starting = new AsyncDisposableStack()
  const security = createAuthenticator(deps)
  starting.defer(() => security.stop())
  const stalls = watchStalls({ onStall: stall => log.warn(stall, 'the event loop stalled') })
  starting.defer(() => stalls.stop())
  const metrics = createMetrics(() => server.streams.count(), stalls, options.refused)
  const rates = await shareRateLimits(deps, createRateLimiter(clock))
  starting.defer(() => rates.stop())
  const server = createServer({
    features: features(deps, security),
    deps,
    security,
    audit: auditWriter,
    idempotency: createIdempotencyStore(deps),
    rateLimiter: rates.limiter,
    onRefusal: planLimitNotices(deps),
    observe: metrics.request,
    operations: allOperations,
    pages: [apiDocsPages, dashboardPages(config)],
    checkAnswers: options.checkAnswers ?? false,
  })
  const runner = createRunner({
    db,
    workflows: workflows(deps),
    log,
    hooks: { step: ({ kind, phase, outcome, ms }) => metrics.step(kind, phase, outcome, ms / 1000) },
  })
  await runner.start()
  starting.defer(() => runner.stop())
  const sweeper = createSweeper({ db, sweeps: sweeps(deps), log })
  await sweeper.start()
  starting.defer(() => sweeper.stop())
  const relay = await startRelay(deps)
  starting.defer(() => relay.stop())
  const revocations = await endRevokedStreams(db, server.streams)
  starting.defer(() => revocations.stop())
  const routes = await startRoutePublisher(deps)
  starting.defer(() => routes.stop())
  const hosts = await startHostReceiver(deps)
  starting.defer(() => hosts.stop())
  const networks = await startNetworkPublisher(deps)
  starting.defer(() => networks.stop())
  const builds = await startBuildReceiver(deps)
  starting.defer(() => builds.stop())
  const registryLogins = await startRegistryLogins(deps)
  starting.defer(() => registryLogins.stop())
  const gateways = await startGatewayReceiver(deps)
  starting.defer(() => gateways.stop())
  const counts = await startCountsReceiver(deps)
  starting.defer(() => counts.stop())
  const certificates = await startCertificateServer(deps)
  starting.defer(() => certificates.stop())
  const tunnels = await startTunnelReceiver(deps)
  starting.defer(() => tunnels.stop())
  const shells = await startShellReceiver(deps)
  starting.defer(() => shells.stop())
  const bastionKeys = await startBastionKeyReceiver(deps)
  starting.defer(() => bastionKeys.stop())
  const checks = { ...deps, security }
  const logins = await startLoginReceiver(bus, { database: databaseLogins(checks), app: appLogins(checks) })
  starting.defer(() => logins.stop())
  if (options.metricsPort !== undefined) {
    const listener = createMetricsServer(metrics)
    await listen(listener, options.metricsPort)
    starting.defer(() => new Promise<void>(resolve => listener.close(() => resolve())))
  }
  const closeConnections = trackConnections(server.app.server)
  await server.app.listen({ host: options.host, port: options.port })
  starting.defer(() => closeConnections(drainMs, server.app.close()))
  const { port } = server.app.server.address() as AddressInfo
  const running = starting.move()
  return { port, url: `http://localhost:${port}`, stop: () => running.disposeAsync() }
}

const listen = (server: Server, port: number) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
