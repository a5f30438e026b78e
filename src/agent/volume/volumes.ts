/** The volumes of this host: created, attached, grown, restored, moved and removed as the control plane requests. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { DiskSpec, VolumeObserved, VolumePut } from '../../contract/agent.ts'
import type { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type { Holders } from '../disk/holders.ts'
import type { Content, VolumePool } from '../disk/pool.ts'
import { isVmId } from '../base/vm-id.ts'
import { StepError } from '../base/step-error.ts'
import { type VolumeCopies, volumeCopies } from './copies.ts'
import { absent, nextAction, observe, type VolumeAction } from './decide.ts'
import { moveHooks } from './move/hooks.ts'
import type { MovesDeps } from './move/moves.ts'
import type { VolumesWithVms } from './move/with-vm.ts'
import { type Opened, volumeOpener } from './open.ts'
import { nothingDone, type StoredVolume, type VolumeDone, type VolumeStore } from './store.ts'

/** Dependencies that volumes and their snapshots share. */
export interface StorageDeps {
  readonly store: VolumeStore
  readonly pools: ReadonlyMap<string, VolumePool>
  readonly holders: Holders
  /** Serializes the operations on one volume, by volume id. */
  readonly mutex: KeyedMutex
  readonly log: Logger
}

export interface VolumesDeps extends StorageDeps, Pick<MovesDeps, 'migrationHost' | 'isGone'> {
  /** Lets the guest use the new size of a volume. @throws StepError `vm_not_running`, `vm_paused` */
  readonly grow: (vmId: string, volumeId: string, sizeMib: number) => Promise<void>
  /** Returns the initial content of new volumes for VMs of this image, as a directory; undefined: none. */
  readonly contentOf: (image: string) => Promise<string | undefined>
  readonly onObserved: (observed: VolumeObserved) => void
}

/** All volumes of this host. Each is reconciled with its desired state; VMs open and close them. */
export interface Volumes extends VolumeCopies, VolumesWithVms {
  /** Loads the state of an earlier agent. VMs may open volumes afterwards. */
  load(stored: readonly StoredVolume[]): void
  /**
   * Continues unfinished work, once it is known which VMs have which volumes. Volumes in a shared pool wait for the
   * next `put`: control may have asked another host instead.
   */
  resume(): void
  /** @throws StepError `stale_generation`, `invalid_volume`, `no_such_pool` */
  put(desired: VolumePut): Promise<VolumeObserved>
  get(volumeId: string): Promise<VolumeObserved>
  /**
   * Opens the volume for an attachment of this generation. Returns its file or device.
   * @throws StepError `stale_volume_generation` when this host recorded a later attachment, `volume_missing`,
   * `volume_not_ready`, `volume_in_use`, `volume_locked` when the agent has not received its key
   */
  open(disk: DiskSpec, vmId: string): Promise<Opened>
  /** Remembers a volume's key in memory while the agent runs. Keys are never stored. */
  learn(volumeId: string, key: string): void
  /** Closes the volume after the VM detached it. Idempotent. */
  close(volumeId: string, vmId: string): Promise<void>
  /** Registers a VM of an earlier agent as a holder of the volume. */
  adopt(disk: DiskSpec, vmId: string): void
  /** Returns the desired states of the created volumes. */
  ready(): readonly VolumePut[]
  stop(): void
}

const brokenPauseMs = 1_000

interface Entry {
  /** `stored`: loaded from an earlier agent, and not confirmed by control since. */
  source: 'stored' | 'reported'
  desired: VolumePut
  done: VolumeDone
  busy: boolean
}

export function createVolumes(deps: VolumesDeps): Volumes {
  const { store, holders, mutex, log } = deps
  const entries = new Map<string, Entry>()
  const keys = new Map<string, string>()
  let stopped = false

  const finish = async (entry: Entry, done: VolumeDone) => {
    // Stored before it is reported, so that a reported state survives a crash.
    await store.saveDone(entry.desired.volumeId, done)
    entry.done = done
  }
  const report = (entry: Entry) => deps.onObserved(observe(entry, moves.observed(entry.desired.volumeId)))
  const fence = async (disk: DiskSpec) => {
    const { volumeId, generation } = disk
    if (generation > (await checkFence(disk))) await store.saveAttachGeneration(volumeId, generation)
  }
  const { moves, withVms } = moveHooks({
    mutex,
    holders,
    log,
    migrationHost: deps.migrationHost,
    isGone: deps.isGone,
    poolOf: name => poolOf(deps.pools, name),
    find: volumeId => entries.get(volumeId),
    finish,
    report,
    fence,
    keyOf: volumeId => keys.get(volumeId),
  })
  /** An encrypted volume without its key waits until control sends the key with the next put. */
  const isLocked = ({ desired }: Entry) =>
    deps.pools.get(desired.pool)?.encrypted === true && !keys.has(desired.volumeId)
  const next = (entry: Entry): VolumeAction => {
    // Another host may have done it meanwhile, and VMs may have written since.
    if (entry.source === 'stored' && deps.pools.get(entry.desired.pool)?.shared) return 'rest'
    const action = nextAction(entry, holders.of(entry.desired.volumeId).length > 0)
    return action === 'create' && isLocked(entry) ? 'rest' : action
  }
  /**
   * Returns the initial content. If it is unavailable the volume starts empty, and the image's program creates what is
   * missing.
   */
  const contentOf = async ({ volumeId, image }: VolumePut): Promise<Content | undefined> => {
    const directory =
      image && (await deps.contentOf(image).catch(err => void log.warn({ volumeId, err }, 'it begins empty')))
    return directory ? { directory } : undefined
  }
  /**
   * Performs the next action. Returns false if there is none now, `notify-vms` if VMs that have the volume must be
   * notified.
   */
  const step = async (entry: Entry): Promise<boolean | 'notify-vms'> => {
    const { desired, done } = entry
    const { volumeId, generation } = desired
    const action = next(entry)
    if (action === 'rest') return false
    const pool = poolOf(deps.pools, desired.pool)
    if (action === 'remove') {
      if (moves.ended(volumeId)) return true // the transfer is canceled only now: remove after it has ended
      await pool.remove(volumeId)
      await store.bury('volume', volumeId, generation)
      entries.delete(volumeId)
      keys.delete(volumeId)
      deps.onObserved(absent(volumeId, generation))
      return false
    }
    try {
      if (action === 'create') {
        await pool.create(volumeId, desired.sizeMib, desired.from ?? (await contentOf(desired)), keys.get(volumeId))
        // The source may be a smaller snapshot; in a shared pool, another host may have created the volume smaller.
        if (desired.from || pool.shared) await pool.grow(volumeId, desired.sizeMib)
        // A restore requested before the creation has nothing to restore, so it counts as done.
        await finish(entry, { ...done, created: true, sizeMib: desired.sizeMib, failure: null })
      } else if (action === 'arrive') {
        if (done.received !== desired.arrived?.transferId)
          throw new StepError('volume_missing', 'what another host sent of the volume is not here')
        await pool.grow(volumeId, desired.sizeMib)
        // The received content already includes the last restore.
        const restored = desired.restore?.count ?? 0
        await finish(entry, { ...done, created: true, restored, sizeMib: desired.sizeMib, failure: null })
      } else if (action === 'restore' && desired.restore) {
        await pool.restore(volumeId, desired.restore.snapshotId)
        await pool.grow(volumeId, desired.sizeMib)
        await finish(entry, { ...done, restored: desired.restore.count, sizeMib: desired.sizeMib, failure: null })
      } else await pool.grow(volumeId, desired.sizeMib)
    } catch (error) {
      log.warn({ volumeId, action, err: error }, 'cannot reconcile the volume with its desired state')
      await finish(entry, { ...done, failure: { generation, error: StepError.of(error).message } })
    }
    if (action !== 'grow') return true
    // Waits for VMs only without the volume's mutex, because a VM may be waiting for that mutex.
    return entry.done.failure?.generation === generation ? true : 'notify-vms'
  }

  /**
   * Lets the VMs that have the volume use its new size. A VM that ends meanwhile sees the new size at its next start.
   */
  const notifyVms = async (entry: Entry): Promise<void> => {
    const { volumeId, sizeMib, generation } = entry.desired
    try {
      for (const vmId of holders.of(volumeId)) await deps.grow(vmId, volumeId, sizeMib).catch(notRunning)
      await finish(entry, { ...entry.done, sizeMib, failure: null })
    } catch (error) {
      log.warn({ volumeId, err: error }, 'a VM cannot make use of a volume that has grown')
      await finish(entry, { ...entry.done, failure: { generation, error: StepError.of(error).message } })
    }
  }

  /** Reconciles until the desired state is reached, has failed, or must wait for a VM. */
  const follow = (entry: Entry): void => {
    moves.follow(entry.desired, entry.done.received)
    if (entry.busy || stopped) return
    entry.busy = true
    const { volumeId } = entry.desired
    const work = async () => {
      report(entry)
      while (!stopped && entries.get(volumeId) === entry) {
        const went = await mutex.take(volumeId, () => step(entry))
        if (went === false) return
        if (went === 'notify-vms') await notifyVms(entry)
        report(entry)
        if (entry.desired.want === 'absent') await moves.ended(volumeId) // outside the mutex, because the transfer may wait for it
      }
    }
    work()
      .catch(async (err: unknown) => {
        // For example, the disk is full or the pool is no longer configured: retry after a pause.
        log.error({ volumeId, err }, 'cannot reconcile the volume; retrying')
        await sleep(brokenPauseMs, undefined, { ref: false })
      })
      .finally(() => {
        entry.busy = false
        const action = next(entry)
        // The desired state changed, or a VM detached, while the last step ended.
        if (entries.get(volumeId) === entry && action !== 'rest' && action !== 'remove') follow(entry)
      })
  }

  const checkFence = async ({ volumeId, generation }: DiskSpec) => {
    const observed = await store.attachGeneration(volumeId)
    if (generation >= observed) return observed
    const message = `volume ${volumeId} was attached under generation ${observed}, ${generation} is older`
    throw new StepError('stale_volume_generation', message)
  }

  const opener = volumeOpener({
    pools: deps.pools,
    holders,
    checkFence,
    fence,
    keyOf: volumeId => keys.get(volumeId),
    find: volumeId => entries.get(volumeId),
  })

  const find = (volumeId: string) => {
    const desired = entries.get(volumeId)?.desired
    return desired && { desired, pool: poolOf(deps.pools, desired.pool) }
  }

  /** Volumes of shared pools have no copies. */
  const own = () =>
    [...entries.values()]
      .filter(({ desired }) => deps.pools.get(desired.pool)?.shared === false)
      .map(one => one.desired.volumeId)

  const closeNow = async (volumeId: string, vmId: string): Promise<void> => {
    if (!holders.of(volumeId).includes(vmId)) return
    await opener.close(volumeId, vmId)
    const entry = entries.get(volumeId)
    if (entry) follow(entry)
  }

  return {
    load(stored) {
      for (const one of stored) entries.set(one.desired.volumeId, { ...one, source: 'stored', busy: false })
    },
    resume() {
      for (const entry of entries.values()) follow(entry)
    },
    async put({ key, ...desired }) {
      if (!isVmId(desired.volumeId))
        throw new StepError('invalid_volume', 'a volume id has letters, digits, - and _ only')
      if (key) keys.set(desired.volumeId, key)
      const known = entries.get(desired.volumeId)
      const generation = known?.desired.generation ?? (await store.buriedGeneration('volume', desired.volumeId))
      if (desired.generation < generation)
        throw new StepError('stale_generation', `generation ${desired.generation} is older than ${generation}`)
      if (desired.generation === generation) {
        if (!known) return absent(desired.volumeId, generation)
        if (known.source === 'stored') Object.assign(known, { source: 'reported', desired })
        follow(known)
        return observe(known, moves.observed(desired.volumeId))
      }
      // A volume that another host created in a shared pool exists even if this host has no record of it.
      if (!known && desired.want === 'absent' && !deps.pools.get(desired.pool)?.shared) {
        await store.bury('volume', desired.volumeId, desired.generation)
        return absent(desired.volumeId, desired.generation)
      }
      if (desired.want === 'present') poolOf(deps.pools, desired.pool)
      if (desired.incoming && known?.done.created)
        throw new StepError('invalid_volume', 'this host has the volume already')
      await store.saveDesired(desired)
      const entry: Entry = known ?? { source: 'reported', desired, done: nothingDone, busy: false }
      entry.source = 'reported'
      entry.desired = desired
      entries.set(desired.volumeId, entry)
      follow(entry)
      return observe(entry, moves.observed(desired.volumeId))
    },
    get: async volumeId => {
      const entry = entries.get(volumeId)
      return entry ? observe(entry, moves.observed(volumeId)) : absent(volumeId, 0)
    },
    learn: (volumeId, key) => void keys.set(volumeId, key),
    open: (disk, vmId) => mutex.take(disk.volumeId, () => opener.open(disk, vmId)),
    close: (volumeId, vmId) => mutex.take(volumeId, () => closeNow(volumeId, vmId)),
    ...withVms,
    ...volumeCopies({ mutex, holders, open: opener.open, find, all: own }),
    adopt: opener.adopt,
    ready: () =>
      [...entries.values()]
        .filter(({ desired, done }) => desired.want === 'present' && done.created)
        .map(({ desired }) => desired),
    stop() {
      stopped = true
      moves.stop()
    },
  }
}

/** Ignores a VM that has just ended: its next start sees the new size. */
function notRunning(error: unknown): void {
  if (!(error instanceof StepError && error.code === 'vm_not_running')) throw error
}

/** @throws StepError `no_such_pool` */
export function poolOf(pools: ReadonlyMap<string, VolumePool>, name: string): VolumePool {
  const pool = pools.get(name)
  if (pool) return pool
  throw new StepError('no_such_pool', `this host has no storage pool "${name}": it has ${[...pools.keys()].join(', ')}`)
}
