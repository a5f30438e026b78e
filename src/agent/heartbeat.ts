import { statfs } from 'node:fs/promises'
import { arch, cpus, totalmem } from 'node:os'
import type { Bus } from '../bus/bus.ts'
import { type HostHeartbeat, type HypervisorOffer, type PoolOffer, subjects, type VmStats } from '../contract/agent.ts'
import type { NetworkObserved } from '../contract/network.ts'
import { abortable } from '../lib/abortable.ts'
import type { AgentConfig } from './base/config.ts'
import type { Reconciler } from './reconcile.ts'
import type { VmActor } from './vm/actor.ts'

export interface Heartbeats {
  readonly hostId: string
  readonly incarnation: string
  readonly version: string
  readonly network: string
  readonly config: AgentConfig
  /** The state of each hypervisor on this host, as known now; one whose probe has not ended is unavailable. */
  readonly offers: () => HypervisorOffer[]
  readonly pools: () => readonly PoolOffer[]
  readonly privateNetwork: () => Promise<NetworkObserved>
  /** The database images that this host has; undefined if its VMs use no images. */
  readonly databaseImages: () => Promise<string[]> | undefined
  readonly reconciler: Reconciler
  readonly bus: Bus
}

const fullEvery = 15
const heartbeatMs = 1_000
/** Timeout for the statistics of all VMs: a hung VMM must not delay the host's heartbeat. */
const statsLimitMs = 500

/** Publishes the host's heartbeat now and every second until the signal is aborted. */
export function startHeartbeats(heartbeats: Heartbeats, onError: (error: unknown) => void, signal: AbortSignal): void {
  let count = 0
  let busy = false
  // Measure the capacity only once: later the disks of VMs occupy free space, which the placement already subtracts.
  let capacity: Capacity | undefined
  const heartbeat = async () => {
    if (busy) return // the previous heartbeat is still being published
    busy = true
    try {
      capacity ??= await hostCapacity(heartbeats.config)
      await publishHeartbeat(heartbeats, count++ % fullEvery === 0, capacity)
    } catch (error) {
      onError(error)
    } finally {
      busy = false
    }
  }
  const timer = setInterval(heartbeat, heartbeatMs)
  signal.addEventListener('abort', () => clearInterval(timer), { once: true })
  void heartbeat()
}

async function publishHeartbeat(
  { config, reconciler, bus, ...heartbeats }: Heartbeats,
  full: boolean,
  capacity: Capacity,
): Promise<void> {
  const images = await heartbeats.databaseImages()
  const message: HostHeartbeat = {
    hostId: heartbeats.hostId,
    name: config.hostName,
    incarnation: heartbeats.incarnation,
    version: heartbeats.version,
    arch: arch(),
    ...capacity,
    hypervisors: heartbeats.offers(),
    network: heartbeats.network,
    vms: full ? reconciler.list() : null,
    stats: await allStats(reconciler),
    pools: [...heartbeats.pools()],
    privateNetwork: await heartbeats.privateNetwork(),
    ...(images ? { databaseImages: images } : {}),
    ...(Object.keys(config.labels).length > 0 ? { labels: config.labels } : {}),
  }
  await bus.publish(subjects.heartbeat(heartbeats.hostId), message)
}

/** Reads the statistics of all VMs. The result omits a VM that does not answer in time. */
async function allStats(reconciler: Reconciler): Promise<VmStats[]> {
  const nowMs = Date.now()
  const limit = AbortSignal.timeout(statsLimitMs)
  const read = (actor: VmActor) => abortable(actor.stats(nowMs), limit).catch(() => undefined)
  const all = await Promise.all([...reconciler.actors()].map(read))
  return all.filter(stats => stats !== undefined)
}

type Capacity = Pick<HostHeartbeat, 'vcpus' | 'memoryMib' | 'diskMib'>

/** Returns the host's capacity for guests. A tenth of the memory is reserved for the host. */
async function hostCapacity({ capacity, dataDir }: AgentConfig): Promise<Capacity> {
  const { bavail, bsize } = await statfs(dataDir)
  return {
    vcpus: capacity.vcpus ?? cpus().length,
    memoryMib: capacity.memoryMib ?? Math.floor((totalmem() / 2 ** 20) * 0.9),
    diskMib: capacity.diskMib ?? Math.floor((bavail * bsize) / 2 ** 20),
  }
}
