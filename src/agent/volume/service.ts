/** Creates this host's storage service: pools, volumes, their snapshots, and the reports about them. */
import type { Logger } from 'pino'
import type { Bus } from '../../bus/bus.ts'
import { type PoolOffer, subjects } from '../../contract/agent.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import { openPools } from '../disk/open-pools.ts'
import { type PoolConfig } from '../base/pool-config.ts'
import { createHolders } from '../disk/holders.ts'
import { createVolumeSnapshots, type VolumeSnapshots, type VolumeSnapshotsDeps } from './snapshots.ts'
import { volumeStore } from './store.ts'
import { measure, offers } from './usage.ts'
import type { VolumesDeps } from './deps.ts'
import { createVolumes, type Volumes } from './volumes.ts'

export interface StorageOptions {
  readonly pools: readonly PoolConfig[]
  readonly dataDir: string
  readonly hostId: string
  readonly bus: Bus
  readonly log: Logger
  readonly quiesce: VolumeSnapshotsDeps['quiesce']
  readonly grow: VolumesDeps['grow']
  readonly contentOf: VolumesDeps['contentOf']
  readonly migrationHost: VolumesDeps['migrationHost']
  readonly isGone: VolumesDeps['isGone']
  readonly copierOf: VolumeSnapshotsDeps['copierOf']
}

export interface Storage {
  readonly volumes: Volumes
  readonly snapshots: VolumeSnapshots
  /** Loads the stored state after a restart, and measures the pools. After that, VMs may open volumes. */
  load(): Promise<void>
  /** Continues unfinished work on volumes and snapshots. Called after the VMs are loaded. */
  resume(): void
  /** Returns the pools for the host's heartbeat. Their free space is measured periodically. */
  offers(): readonly PoolOffer[]
  stop(): Promise<void>
}

const measureEveryMs = 30_000

export function createStorage({
  dataDir,
  hostId,
  bus,
  log,
  quiesce,
  grow,
  contentOf,
  migrationHost,
  isGone,
  copierOf,
  ...options
}: StorageOptions): Storage {
  const pools = openPools(options.pools, dataDir)
  const store = volumeStore(dataDir)
  const mutex = createKeyedMutex()
  const shared = { store, pools, mutex, holders: createHolders(), log }
  const publish = (subject: string, message: unknown) => {
    bus
      .publish(subject, message)
      .catch((err: unknown) =>
        log.warn({ err }, 'cannot publish the usage of volumes; the next measurement repeats it'),
      )
  }
  let known: readonly PoolOffer[] = []
  let timer: NodeJS.Timeout | undefined
  const measureAll = async () => {
    known = await offers(pools)
    const usages = await measure(volumes, pools)
    if (usages.volumes.length > 0) publish(subjects.volumeUsage(hostId), usages)
  }
  const measureSoon = () => void measureAll().catch((err: unknown) => log.warn({ err }, 'cannot measure the volumes'))
  const volumes = createVolumes({
    ...shared,
    grow,
    contentOf,
    migrationHost,
    isGone,
    onObserved: observed => {
      publish(subjects.volume(hostId), observed)
      if (observed.state === 'ready') measureSoon()
      // Removing the volume has also removed its snapshots from the pool, so their records are deleted.
      if (observed.state === 'absent') snapshots.forgetOf(observed.volumeId)
    },
  })
  const snapshots = createVolumeSnapshots({
    ...shared,
    quiesce,
    copierOf,
    onObserved: observed => {
      publish(subjects.volumeSnapshot(hostId), observed)
      if (observed.state === 'ready' || observed.state === 'absent') measureSoon()
    },
  })
  return {
    volumes,
    snapshots,
    async load() {
      const stored = await store.load()
      volumes.load(stored.volumes)
      snapshots.load(stored.snapshots)
      await measureAll()
    },
    resume() {
      volumes.resume()
      snapshots.resume()
      timer = setInterval(measureSoon, measureEveryMs)
    },
    offers: () => known,
    async stop() {
      clearInterval(timer)
      volumes.stop()
      snapshots.stop()
      await mutex.settled()
    },
  }
}
