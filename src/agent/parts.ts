/** Creates the parts of the agent that run VMs, and connects them. */
import { cpus } from 'node:os'
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { type HypervisorName, subjects } from '../contract/agent.ts'
import { semaphore, type Semaphore } from '../lib/semaphore.ts'
import type { Tally } from '../lib/tally.ts'
import type { AgentConfig } from './base/config.ts'
import { type Builds, createBuilds } from './build/builds.ts'
import { arrivalHost } from './drivers.ts'
import type { Driver } from './hypervisor/driver.ts'
import type { VmUser } from './hypervisor/isolation.ts'
import { contentOfImages } from './image/volume-content.ts'
import type { Launcher } from './launcher/launcher.ts'
import type { RetainedLogs } from './logs/retained.ts'
import type { Network, OnRefused } from './net/net.ts'
import { openNetwork } from './net/open.ts'
import { openPrivateNetwork, type PrivateNetwork } from './net/private-network.ts'
import { refusalReporter } from './net/refusals.ts'
import { meshDevice } from './net/rules.ts'
import { kindsOf, type Probes } from './probes.ts'
import { createReconciler, type Reconciler } from './reconcile.ts'
import { basesOfSnapshots } from './snapshot/base.ts'
import { createSnapshots, type Snapshots } from './snapshot/snapshots.ts'
import { snapshotStore } from './snapshot/store.ts'
import type { StateDir } from './state.ts'
import { healthTiming } from './vm/health.ts'
import { createStorage, type Storage } from './volume/service.ts'

/** What all parts of the agent depend on. */
export interface Ground {
  readonly config: AgentConfig
  readonly bus: Bus
  readonly log: Logger
  readonly dataDir: string
  readonly state: StateDir
  readonly launcher: Launcher
  readonly retainedLogs: RetainedLogs
  /** Aborted when the agent stops. */
  readonly signal: AbortSignal
}

/** `Ground`, and in addition the network and the hypervisors. */
export interface HostGround extends Ground {
  readonly network: Network
  readonly drivers: ReadonlyMap<HypervisorName, Driver>
  readonly probes: Probes
  /** Limits how many VMs boot at the same time. */
  readonly bootSlots: Semaphore
}

/** Parts that use one another, so they are created together. */
export interface VmParts {
  readonly snapshots: Snapshots
  readonly storage: Storage
  readonly reconciler: Reconciler
}

export const bootSlotsOf = ({ maxBoots }: AgentConfig): Semaphore => semaphore(maxBoots ?? cpus().length * 2)

/** Returns a function that counts refused packets and DNS queries of guests, and reports them in the VMs' logs. */
export const createOnRefused = (
  { config, log }: Ground,
  refused: Tally | undefined,
  reconciler: () => Reconciler,
): OnRefused =>
  refusalReporter({
    limits: config.guestLimits,
    nowMs: () => performance.now(),
    say: (vmId, line) => {
      log.warn({ vmId }, line)
      reconciler().say(vmId, line)
    },
    onCount: (kind, count) => refused?.add(kind, count),
  })

export const openHostNetwork = (
  { config, launcher, log }: Ground,
  userOf: (vmId: string) => VmUser | undefined,
  onRefused: OnRefused,
  reconciler: () => Reconciler,
): Promise<Network> =>
  openNetwork(config, {
    runs: launcher.run,
    onHealed: vmId => {
      log.warn({ vmId }, 'the firewall rules of a VM were changed on the host; repaired')
      reconciler().report(vmId)
    },
    onRefused,
    onUnlimited: err => log.warn({ err }, 'this kernel cannot limit the network use of VMs'),
    onError: err => log.error({ err }, 'cannot maintain the firewall'),
    onNoTaps: reason =>
      log.warn(
        { reason },
        'taps do not work here: VMs get user networking, without private networks and firewall rules',
      ),
    ownerOf: vmId => userOf(vmId)?.uid,
  })

export function createVmParts(ground: HostGround): VmParts {
  const snapshots = createHostSnapshots(ground, () => parts)
  const storage = createHostStorage(ground, snapshots, () => parts)
  const parts: VmParts = { snapshots, storage, reconciler: createHostReconciler(ground, snapshots, storage) }
  return parts
}

function createHostSnapshots(ground: HostGround, parts: () => VmParts): Snapshots {
  const { bus, config, dataDir, drivers, log, network, state } = ground
  return createSnapshots({
    store: snapshotStore(dataDir),
    check: vmId => parts().reconciler.checkSnapshot(vmId),
    take: (desired, dir) => parts().reconciler.takeSnapshot(desired, dir),
    disksOf: vmId => (parts().reconciler.desiredOf(vmId)?.spec.disks ?? []).map(disk => disk.volumeId),
    dropCopy: (volumeId, snapshotId) => parts().storage.volumes.dropCopy(volumeId, snapshotId),
    dropCopies: snapshotId => parts().storage.volumes.dropCopies(snapshotId),
    inUse: snapshotId => parts().reconciler.usesSnapshot(snapshotId),
    kinds: () => kindsOf(drivers.values()),
    makeBase: basesOfSnapshots(config, line => log.info(line)),
    migrationHost: () => arrivalHost(config, network),
    onObserved: observed => {
      parts().reconciler.poke(observed.vmId)
      bus
        .publish(subjects.snapshot(state.hostId), observed)
        .catch((err: unknown) => log.warn({ err }, 'cannot publish'))
    },
    log,
  })
}

function createHostStorage(ground: HostGround, snapshots: Snapshots, parts: () => VmParts): Storage {
  const { bus, config, dataDir, drivers, log, network, signal, state } = ground
  return createStorage({
    pools: config.pools,
    dataDir,
    hostId: state.hostId,
    bus,
    log,
    quiesce: (vmId, volumeId, act) => parts().reconciler.quiesce(vmId, volumeId, act),
    grow: (vmId, volumeId, sizeMib) => parts().reconciler.growVolume(vmId, volumeId, sizeMib),
    copierOf: vmId => [...drivers.values()].map(driver => driver.copierOf?.(vmId)).find(copier => copier !== undefined),
    migrationHost: () => arrivalHost(config, network),
    isGone: snapshots.isGone,
    contentOf: contentOfImages(config, line => log.info(line), signal),
  })
}

const createHostReconciler = (ground: HostGround, snapshots: Snapshots, storage: Storage): Reconciler =>
  createReconciler({
    state: ground.state,
    drivers: ground.drivers,
    bus: ground.bus,
    log: ground.log,
    health: healthTiming,
    logLimits: ground.config.log,
    retainedLogs: ground.retainedLogs,
    stopGraceMs: ground.config.stopGraceMs,
    guard: ground.network,
    volumes: storage.volumes,
    snapshot: snapshots.source,
    onRelease: snapshots.poke,
    hasSnapshot: snapshots.has,
    bootSlots: ground.bootSlots,
    ready: ground.probes.done,
  })

export const openHostPrivateNetwork = (
  { config, dataDir, log, network }: HostGround,
  reconciler: Reconciler,
  onRefused: OnRefused,
): Promise<PrivateNetwork> =>
  openPrivateNetwork({
    dataDir,
    network,
    log,
    desiredOf: vmId => reconciler.desiredOf(vmId)?.spec,
    queriesPerSecond: config.guestLimits.nameQueries,
    onRefused: vmId => onRefused(vmId, 'names', 1),
    mesh: meshOptions(config),
  })

export const createHostBuilds = (ground: HostGround): Promise<Builds> =>
  createBuilds({
    hostId: ground.state.hostId,
    dataDir: ground.dataDir,
    vmDir: ground.state.vmDir,
    drivers: ground.drivers,
    bootSlots: ground.bootSlots,
    bus: ground.bus,
    log: ground.log,
    cacheDir: resolve(ground.config.cacheDir),
    imageDir: resolve(ground.config.imageDir),
    registries: ground.config.registries,
    buildCa: ground.config.buildCa,
    toolchainMib: ground.config.toolchainMib,
    ready: ground.probes.done,
    logLimits: ground.config.log,
  })

/** Returns the settings of the mesh; undefined for a fake host, whose simulated guests need no tunnel. */
function meshOptions({ hypervisor, meshEndpoint, meshKeyDays }: AgentConfig) {
  if (meshEndpoint === null || hypervisor === 'fake') return undefined
  return { device: meshDevice, endpoint: meshEndpoint, rotateAfterMs: meshKeyDays * 24 * 3_600_000 }
}
