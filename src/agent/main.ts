/** The host agent: runs the VMs, volumes and builds that the control plane assigns to this host. */
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import type { HypervisorOffer } from '../contract/agent.ts'
import { newId } from '../lib/ids.ts'
import { levelOf } from '../lib/outage.ts'
import { tryHostLock } from '../lib/host-lock.ts'
import type { Tally } from '../lib/tally.ts'
import { startHeartbeats } from './heartbeat.ts'
import type { AgentConfig } from './base/config.ts'
import { createDrivers } from './drivers.ts'
import type { FakeHost } from './hypervisor/fake/host.ts'
import { vmUsers } from './hypervisor/isolation.ts'
import { type Launcher, noLauncher, openLauncher } from './launcher/launcher.ts'
import type { PrivateNetwork } from './net/private-network.ts'
import {
  bootSlotsOf,
  createHostBuilds,
  createOnRefused,
  createVmParts,
  type Ground,
  type HostGround,
  openHostNetwork,
  openHostPrivateNetwork,
  type VmParts,
} from './parts.ts'
import { probeAll } from './probes.ts'
import { openRetainedLogs, type RetainedLogs } from './logs/retained.ts'
import { reclaim, reclaimBases } from './reclaim.ts'
import { serveHost } from './serve.ts'
import { openStateDir, type StoredVm } from './state.ts'
import { databaseImages } from './image/engines.ts'
import { loginsFrom } from './image/logins.ts'

export interface AgentDeps {
  readonly bus: Bus
  readonly log: Logger
  /** The simulated host that the fake driver uses; tests create it to control it. */
  readonly fake?: FakeHost
  /** Counts refused packets and DNS queries of guests, by kind, for the agent's metrics. */
  readonly refused?: Tally
  /** Aborting this signal stops the agent; VMs keep running. */
  readonly signal?: AbortSignal
}

export interface Agent {
  readonly hostId: string
  /** Resolves once the state of each hypervisor is known: the guest kernel is available, and the KVM test has ended. */
  readonly probed: Promise<readonly HypervisorOffer[]>
  /** Stops the agent. VMs keep running unless `stopVms`. Idempotent. */
  stop(options?: { readonly stopVms?: boolean }): Promise<void>
}

const version = '0.1.0'

/**
 * Starts this host's agent: reclaims resources of an earlier one, adopts the VMs that still run, and serves requests on
 * the bus.
 * @throws Error when another agent runs on the same data directory.
 */
export async function startAgent(config: AgentConfig, { signal, ...deps }: AgentDeps): Promise<Agent> {
  const { log, refused } = deps
  await using starting = new AsyncDisposableStack()
  let stopVms = false
  const end = new AbortController()
  const ground = await openGround(config, deps, starting, end)
  const { dataDir, state } = ground
  const incarnation = newId()
  const reconciler = () => parts.reconciler
  const onRefused = createOnRefused(ground, refused, reconciler)
  const openedNetwork = openHostNetwork(ground, vmUsers(dataDir), onRefused, reconciler)
  // In parallel, because the kernel needs some time to load the firewall rules.
  const [network, stored] = await Promise.all([openedNetwork, state.load()])
  const drivers = await createDrivers({ ...config, dataDir }, network, line => log.info(line), {
    fake: deps.fake,
    launcher: ground.launcher,
    askLogin: loginsFrom(deps.bus, state.hostId),
  })
  starting.defer(async () => {
    for (const driver of drivers.values()) await driver.close()
  })
  const probes = probeAll(drivers.values(), end.signal)
  const host: HostGround = { ...ground, network, drivers, probes, bootSlots: bootSlotsOf(config) }
  const parts = createVmParts(host)
  const vmsDir = join(dataDir, 'vms')
  await reclaim({ state, stored, drivers: drivers.values(), cacheDir: config.cacheDir, vmsDir, log })
  if (config.hypervisor !== 'fake') await reclaimBases(config, dataDir, log)
  const privateNetwork = await openHostPrivateNetwork(host, parts.reconciler, onRefused)
  starting.defer(() => privateNetwork.stop({ stopVms }))
  starting.defer(() => parts.storage.stop())
  starting.defer(() => parts.snapshots.stop())
  starting.defer(() => parts.reconciler.stop(stopVms))
  await resumeParts(parts, stored.vms)
  const builds = await createHostBuilds(host)
  starting.defer(() => builds.stop())
  // Abort this signal first, so that no new work starts while the other parts stop.
  starting.defer(() => end.abort())
  const id = { hostId: state.hostId, incarnation }
  await serveHost(host.bus, id, { ...parts, builds, privateNetwork, retainedLogs: ground.retainedLogs }, end.signal)
  startHostHeartbeats(host, incarnation, parts, privateNetwork)

  const running = starting.move()
  let stopping: Promise<void> | undefined
  const stop = (withVms: boolean) => {
    if (stopping === undefined) stopVms = withVms
    stopping ??= running.disposeAsync()
    return stopping
  }
  signal?.addEventListener('abort', () => void stop(false), { once: true })
  return {
    hostId: state.hostId,
    probed: probes.done.then(probes.offers),
    stop: options => stop(options?.stopVms ?? false),
  }
}

/** Locks the data directory and opens the state in it. Disposing `starting` releases both. */
async function openGround(
  config: AgentConfig,
  { bus, log }: Pick<AgentDeps, 'bus' | 'log'>,
  starting: AsyncDisposableStack,
  end: AbortController,
): Promise<Ground> {
  const dataDir = resolve(config.dataDir)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const lock = await tryHostLock(`agent ${dataDir}`)
  if (!lock) throw new Error(`another agent runs on ${dataDir}: stop it first, or choose another data directory`)
  starting.defer(() => lock.release())
  starting.defer(() => end.abort())
  const state = await openStateDir(dataDir, config.hostId, err =>
    log.warn({ err }, 'cannot remove the directory of a removed VM; retrying with the next removal'),
  )
  starting.defer(() => state.settled())
  const retainedLogs = await openRetainedLogs(join(dataDir, 'logs'), config.logRetention, Date.now)
  pruneHourly(retainedLogs, log, end.signal)
  const launcher = await launcherFor(config, log)
  starting.defer(() => launcher.close())
  return { config, bus, log, dataDir, state, launcher, retainedLogs, signal: end.signal }
}

function pruneHourly(logs: RetainedLogs, log: Logger, signal: AbortSignal): void {
  const prune = () => void logs.prune().catch((err: unknown) => log.error({ err }, 'cannot remove old logs'))
  prune()
  const timer = setInterval(prune, 3_600_000)
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
}

/** Loads snapshots and volumes before the VMs that use them. Their unfinished work continues after that. */
async function resumeParts({ reconciler, snapshots, storage }: VmParts, vms: readonly StoredVm[]): Promise<void> {
  await snapshots.load()
  await storage.load()
  await reconciler.resume(vms)
  snapshots.resume()
  storage.resume()
}

function startHostHeartbeats(
  { bus, config, log, network, probes, signal, state }: HostGround,
  incarnation: string,
  { reconciler, storage }: VmParts,
  privateNetwork: PrivateNetwork,
): void {
  const heartbeats = {
    hostId: state.hostId,
    incarnation,
    version,
    network: network.mode,
    config,
    reconciler,
    bus,
    offers: probes.offers,
    pools: storage.offers,
    privateNetwork: privateNetwork.observed,
    databaseImages: () => databaseImages(config),
  }
  startHeartbeats(heartbeats, err => log[levelOf(err)]({ err }, 'cannot publish the heartbeat'), signal)
}

/** Opens the launcher. An agent with only the fake hypervisor needs none, because it starts no programs. */
async function launcherFor({ hypervisor, cacheDir }: AgentConfig, log: Logger): Promise<Launcher> {
  if (hypervisor === 'fake') return noLauncher
  return openLauncher(resolve(cacheDir)).catch((err: unknown) => {
    log.warn({ err }, 'cannot use the launcher: the agent starts programs itself, which takes longer')
    return noLauncher
  })
}
