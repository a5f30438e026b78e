import { mkdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { type HypervisorOffer, subjects } from '../contract/agent.ts'
import { newId } from '../lib/ids.ts'
import { tryMachineLock } from '../lib/machine-lock.ts'
import { semaphore } from '../lib/semaphore.ts'
import { startBeats } from './beat.ts'
import type { AgentConfig } from './config.ts'
import { createDrivers } from './drivers.ts'
import type { FakeHost } from './hypervisor/fake/host.ts'
import type { Driver } from './hypervisor/driver.ts'
import { hostVolumes } from './disk/volumes.ts'
import { createReconciler, type Reconciler } from './reconcile.ts'
import { reclaim } from './reclaim.ts'
import { serveHost } from './serve.ts'
import { createSnapshots } from './snapshot/snapshots.ts'
import { snapshotStore } from './snapshot/store.ts'
import { openStateDir } from './state.ts'
import { healthTiming } from './vm/health.ts'

export interface AgentDeps {
  readonly bus: Bus
  readonly log: Logger
  /** The simulated machine under the fake driver, for tests that turn it. */
  readonly fake?: FakeHost
  /** Stops the agent; VMs keep running. */
  readonly signal?: AbortSignal
}

export interface Agent {
  readonly hostId: string
  /** Resolves when it is known what this host offers: the guest kernel is there, KVM is proven or not. */
  readonly probed: Promise<readonly HypervisorOffer[]>
  /** Idempotent. VMs outlive the agent unless `stopVms`. */
  stop(options?: { readonly stopVms?: boolean }): Promise<void>
}

const version = '0.1.0'

/**
 * Starts this host's agent: takes back what an earlier one left, adopts the VMs that still run, answers on the bus.
 * @throws Error when another agent runs on the same data directory.
 */
export async function startAgent(config: AgentConfig, { bus, log, fake, signal }: AgentDeps): Promise<Agent> {
  const dataDir = resolve(config.dataDir)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const lock = await tryMachineLock(`agent ${dataDir}`)
  if (!lock) throw new Error(`another agent runs on ${dataDir}: stop it first, or choose another data directory`)
  const end = new AbortController()
  const state = await openStateDir(dataDir, config.hostId)
  const incarnation = newId()
  const drivers = await createDrivers({ ...config, dataDir }, line => log.info(line), fake)
  const probes = probeAll(drivers.values(), end.signal)
  const snapshots = createSnapshots({
    store: snapshotStore(dataDir),
    check: vmId => reconciler.checkSnapshot(vmId),
    take: (vmId, dir) => reconciler.takeSnapshot(vmId, dir),
    inUse: snapshotId => reconciler.usesSnapshot(snapshotId),
    onSeen: seen => {
      bus.publish(subjects.snapshot(state.hostId), seen).catch((err: unknown) => log.warn({ err }, 'cannot publish'))
    },
    log,
  })
  const reconciler: Reconciler = createReconciler({
    ...{ state, drivers, bus, log, health: healthTiming, logLimits: config.log, stopGraceMs: config.stopGraceMs },
    ...{ volumes: hostVolumes(dataDir), snapshot: snapshots.source, onRelease: snapshots.poke },
    bootSlots: semaphore(config.maxBoots ?? cpus().length * 2),
    ready: probes.done,
  })
  const stored = await state.load()
  const vmsDir = join(dataDir, 'vms')
  await reclaim({ state, stored, drivers: drivers.values(), cacheDir: config.cacheDir, vmsDir, log })
  await snapshots.load()
  await reconciler.resume(stored.vms)
  snapshots.resume()
  await serveHost(bus, { hostId: state.hostId, incarnation }, { reconciler, snapshots }, end.signal)
  const network = [...drivers.values()][0]?.network ?? 'none'
  const beats = {
    ...{ hostId: state.hostId, incarnation, version, network, config, reconciler, bus },
    offers: probes.offers,
  }
  startBeats(beats, err => log.error({ err }, 'cannot publish the beat'), end.signal)

  let stopping: Promise<void> | undefined
  const stop = (stopVms: boolean) => {
    stopping ??= (async () => {
      end.abort()
      await reconciler.stop(stopVms)
      await snapshots.stop()
      for (const driver of drivers.values()) await driver.close()
      await lock.release()
    })()
    return stopping
  }
  signal?.addEventListener('abort', () => void stop(false), { once: true })
  return {
    hostId: state.hostId,
    probed: probes.done.then(probes.offers),
    stop: options => stop(options?.stopVms ?? false),
  }
}

/** Probing takes seconds the first time (the kernel is fetched, KVM is proven): the agent answers meanwhile. */
function probeAll(drivers: Iterable<Driver>, signal: AbortSignal) {
  const offers = new Map<Driver, HypervisorOffer>()
  const all = [...drivers].map(async driver => {
    const { name, capabilities } = driver
    offers.set(driver, { name, available: false, probing: true, detail: 'being probed', capabilities })
    const result = await driver.probe(signal).catch((error: unknown) => ({ available: false, detail: String(error) }))
    offers.set(driver, { name, ...result, capabilities })
  })
  return { offers: () => [...offers.values()], done: Promise.all(all).then(() => undefined) }
}
