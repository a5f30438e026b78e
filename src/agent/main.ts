/** The host agent: runs the VMs, volumes and builds that the control plane assigns to this host. */
import { mkdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { type HypervisorOffer, subjects } from '../contract/agent.ts'
import { newId } from '../lib/ids.ts'
import { levelOf } from '../lib/outage.ts'
import { tryHostLock } from '../lib/host-lock.ts'
import type { Tally } from '../lib/tally.ts'
import { semaphore } from '../lib/semaphore.ts'
import { startHeartbeats } from './heartbeat.ts'
import type { AgentConfig } from './base/config.ts'
import { arrivalHost, createDrivers } from './drivers.ts'
import type { FakeHost } from './hypervisor/fake/host.ts'
import type { Driver, Probed } from './hypervisor/driver.ts'
import { vmUsers } from './hypervisor/isolation.ts'
import { featuresOf } from './hypervisor/features.ts'
import { type Launcher, noLauncher, openLauncher } from './launcher/launcher.ts'
import { openNetwork } from './net/open.ts'
import { refusalReporter } from './net/refusals.ts'
import { openPrivateNetwork } from './net/private-network.ts'
import { meshDevice } from './net/rules.ts'
import { createBuilds } from './build/builds.ts'
import { createReconciler, type Reconciler } from './reconcile.ts'
import { reclaim } from './reclaim.ts'
import { serveHost } from './serve.ts'
import { basesOfSnapshots } from './snapshot/base.ts'
import { createSnapshots } from './snapshot/snapshots.ts'
import { snapshotStore } from './snapshot/store.ts'
import { openStateDir } from './state.ts'
import { healthTiming } from './vm/health.ts'
import { databaseImages } from './image/engines.ts'
import { contentOfImages } from './image/volume-content.ts'
import { createStorage } from './volume/service.ts'

export interface AgentDeps {
  readonly bus: Bus
  readonly log: Logger
  /** The simulated host under the fake driver, for tests that control it. */
  readonly fake?: FakeHost
  /** Counts refused packets and queries of guests, by kind, for the metrics of the process. */
  readonly refused?: Tally
  /** Stops the agent; VMs keep running. */
  readonly signal?: AbortSignal
}

export interface Agent {
  readonly hostId: string
  /** Resolves once the host's offers are known: the guest kernel is available, and the KVM test has ended. */
  readonly probed: Promise<readonly HypervisorOffer[]>
  /** Idempotent. VMs outlive the agent unless `stopVms`. */
  stop(options?: { readonly stopVms?: boolean }): Promise<void>
}

const version = '0.1.0'

/**
 * Starts this host's agent: reclaims resources of an earlier one, adopts the VMs that still run, and serves requests on
 * the bus.
 * @throws Error when another agent runs on the same data directory.
 */
export async function startAgent(config: AgentConfig, { bus, log, fake, refused, signal }: AgentDeps): Promise<Agent> {
  await using starting = new AsyncDisposableStack()
  let stopVms = false
  const dataDir = resolve(config.dataDir)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const lock = await tryHostLock(`agent ${dataDir}`)
  if (!lock) throw new Error(`another agent runs on ${dataDir}: stop it first, or choose another data directory`)
  starting.defer(() => lock.release())
  const end = new AbortController()
  starting.defer(() => end.abort())
  const state = await openStateDir(dataDir, config.hostId, err =>
    log.warn({ err }, 'cannot remove the directory of a removed VM; retrying with the next removal'),
  )
  starting.defer(() => state.settled())
  const incarnation = newId()
  const userOf = vmUsers(dataDir)
  const launcher = await launcherFor(config, log)
  starting.defer(() => launcher.close())
  const onRefused = refusalReporter({
    limits: config.guestLimits,
    nowMs: () => performance.now(),
    say: (vmId, line) => {
      log.warn({ vmId }, line)
      reconciler.say(vmId, line)
    },
    onCount: (kind, count) => refused?.add(kind, count),
  })
  const openedNetwork = openNetwork(config, {
    runs: launcher.run,
    onHealed: vmId => {
      log.warn({ vmId }, 'the firewall rules of a VM were changed on the host; repaired')
      reconciler.report(vmId)
    },
    onRefused,
    onUnlimited: err => log.warn({ err }, 'this kernel cannot limit what VMs use of the network'),
    onError: err => log.error({ err }, 'cannot maintain the firewall'),
    onNoTaps: reason =>
      log.warn(
        { reason },
        'taps do not work here: VMs get user networking, without private networks and firewall rules',
      ),
    ownerOf: vmId => userOf(vmId)?.uid,
  })
  // In parallel, because loading the rules takes the kernel a while.
  const [network, stored] = await Promise.all([openedNetwork, state.load()])
  const drivers = await createDrivers({ ...config, dataDir }, network, line => log.info(line), fake, launcher)
  starting.defer(async () => {
    for (const driver of drivers.values()) await driver.close()
  })
  const probes = probeAll(drivers.values(), end.signal)
  const snapshots = createSnapshots({
    store: snapshotStore(dataDir),
    check: vmId => reconciler.checkSnapshot(vmId),
    take: (desired, dir) => reconciler.takeSnapshot(desired, dir),
    disksOf: vmId => (reconciler.desiredOf(vmId)?.spec.disks ?? []).map(disk => disk.volumeId),
    dropCopy: (volumeId, snapshotId) => storage.volumes.dropCopy(volumeId, snapshotId),
    dropCopies: snapshotId => storage.volumes.dropCopies(snapshotId),
    inUse: snapshotId => reconciler.usesSnapshot(snapshotId),
    kinds: () => kindsOf(drivers.values()),
    makeBase: basesOfSnapshots(config, line => log.info(line)),
    migrationHost: () => arrivalHost(config, network),
    onObserved: observed => {
      reconciler.poke(observed.vmId)
      bus
        .publish(subjects.snapshot(state.hostId), observed)
        .catch((err: unknown) => log.warn({ err }, 'cannot publish'))
    },
    log,
  })
  const bootSlots = semaphore(config.maxBoots ?? cpus().length * 2)
  const storage = createStorage({
    pools: config.pools,
    dataDir,
    hostId: state.hostId,
    bus,
    log,
    quiesce: (vmId, volumeId, act) => reconciler.quiesce(vmId, volumeId, act),
    grow: (vmId, volumeId, sizeMib) => reconciler.growVolume(vmId, volumeId, sizeMib),
    copierOf: vmId => [...drivers.values()].map(driver => driver.copierOf?.(vmId)).find(copier => copier !== undefined),
    migrationHost: () => arrivalHost(config, network),
    isGone: snapshots.isGone,
    contentOf: contentOfImages(config, line => log.info(line), end.signal),
  })
  const reconciler: Reconciler = createReconciler({
    state,
    drivers,
    bus,
    log,
    health: healthTiming,
    logLimits: config.log,
    stopGraceMs: config.stopGraceMs,
    guard: network,
    volumes: storage.volumes,
    snapshot: snapshots.source,
    onRelease: snapshots.poke,
    hasSnapshot: snapshots.has,
    bootSlots,
    ready: probes.done,
  })
  const vmsDir = join(dataDir, 'vms')
  await reclaim({ state, stored, drivers: drivers.values(), cacheDir: config.cacheDir, vmsDir, log })
  const privateNetwork = await openPrivateNetwork({
    dataDir,
    network,
    log,
    desiredOf: vmId => reconciler.desiredOf(vmId)?.spec,
    queriesPerSecond: config.guestLimits.nameQueries,
    onRefused: vmId => onRefused(vmId, 'names', 1),
    mesh: meshOptions(config),
  })
  starting.defer(() => privateNetwork.stop({ stopVms }))
  starting.defer(() => storage.stop())
  starting.defer(() => snapshots.stop())
  starting.defer(() => reconciler.stop(stopVms))
  await snapshots.load()
  await storage.load()
  await reconciler.resume(stored.vms)
  snapshots.resume()
  storage.resume()
  const builds = await createBuilds({
    hostId: state.hostId,
    dataDir,
    vmDir: state.vmDir,
    drivers,
    bootSlots,
    bus,
    log,
    cacheDir: resolve(config.cacheDir),
    imageDir: resolve(config.imageDir),
    registries: config.registries,
    buildCa: config.buildCa,
    ready: probes.done,
    logLimits: config.log,
  })
  starting.defer(() => builds.stop())
  // Aborted first, so that no new work starts while the other parts stop.
  starting.defer(() => end.abort())
  await serveHost(
    bus,
    { hostId: state.hostId, incarnation },
    { reconciler, snapshots, builds, storage, privateNetwork },
    end.signal,
  )
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
  startHeartbeats(heartbeats, err => log[levelOf(err)]({ err }, 'cannot publish the heartbeat'), end.signal)

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

/**
 * Returns the `madeBy` values of snapshots created on this host now, for drivers whose snapshots can move between
 * hosts.
 */
async function kindsOf(drivers: Iterable<Driver>): Promise<string[]> {
  const movable = [...drivers].filter(driver => driver.movesSnapshots)
  const kinds = await Promise.all(movable.map(driver => driver.snapshotKind?.().catch(() => undefined)))
  return kinds.filter(kind => kind !== undefined)
}

/** A fake host starts no programs. */
async function launcherFor({ hypervisor, cacheDir }: AgentConfig, log: Logger): Promise<Launcher> {
  if (hypervisor === 'fake') return noLauncher
  return openLauncher(resolve(cacheDir)).catch((err: unknown) => {
    log.warn({ err }, 'cannot use the launcher: the agent starts programs itself, which takes longer')
    return noLauncher
  })
}

/** A fake host has no real guests that need a tunnel. */
function meshOptions({ hypervisor, meshEndpoint, meshKeyDays }: AgentConfig) {
  if (meshEndpoint === null || hypervisor === 'fake') return undefined
  return { device: meshDevice, endpoint: meshEndpoint, rotateAfterMs: meshKeyDays * 24 * 3_600_000 }
}

/**
 * Probes the drivers. The first probe takes seconds (the kernel is fetched, KVM is tested); the agent serves requests
 * meanwhile.
 */
function probeAll(drivers: Iterable<Driver>, signal: AbortSignal) {
  const offers = new Map<Driver, HypervisorOffer>()
  const all = [...drivers].map(async driver => {
    const { name, capabilities } = driver
    const features = featuresOf(driver)
    offers.set(driver, { name, available: false, probing: true, detail: 'being probed', capabilities, features })
    const failed = (error: unknown): Probed => ({ available: false, detail: String(error) })
    const { available, detail, emulated } = await driver.probe(signal).catch(failed)
    const [snapshotKind] = available ? await kindsOf([driver]) : []
    const kind = snapshotKind === undefined ? {} : { snapshotKind }
    const speed = emulated === true ? { emulated } : {}
    offers.set(driver, {
      name,
      available,
      detail,
      ...speed,
      ...kind,
      capabilities,
      features,
    })
  })
  return { offers: () => [...offers.values()], done: Promise.all(all).then(() => undefined) }
}
