import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumeSnapshotObserved, VolumeSnapshotPut } from '../../contract/agent.ts'
import { createKeyedMutex, type KeyedMutex } from '../../lib/keyed-mutex.ts'
import { isVmId } from '../base/vm-id.ts'
import type { VolumePool } from '../disk/pool.ts'
import type { DiskCopier } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import type { SnapshotDone, StoredSnapshot } from './store.ts'
import { poolOf, type StorageDeps } from './deps.ts'

export interface VolumeSnapshotsDeps extends StorageDeps {
  /**
   * Runs `act` while the VM is paused and its guest does not write to the volume. Returns the duration of the pause in
   * milliseconds.
   * @throws StepError `vm_not_running` if the VM does not run
   */
  readonly quiesce: (vmId: string, volumeId: string, act: () => Promise<void>) => Promise<number>
  /**
   * Returns the function with which the VM's hypervisor copies volumes while the VM runs; undefined if the VM must be
   * paused for the copy.
   */
  readonly copierOf: (vmId: string) => DiskCopier | undefined
  readonly onObserved: (observed: VolumeSnapshotObserved) => void
}

/** The volume snapshots of this host: takes and removes them. */
export interface VolumeSnapshots {
  load(stored: readonly StoredSnapshot[]): void
  /**
   * Takes unfinished snapshots again, once it is known which VMs use which volumes. Snapshots in a shared pool wait for
   * the next `put`: the control plane may have requested them from another host instead, and VMs may have written to
   * the volumes since.
   */
  resume(): void
  /** Sets the desired state of a snapshot. @throws StepError `stale_generation`, `invalid_snapshot`, `no_such_pool` */
  put(desired: VolumeSnapshotPut): Promise<VolumeSnapshotObserved>
  /** Deletes the records of a volume's snapshots after the volume has left this host. */
  forgetOf(volumeId: string): void
  stop(): void
}

interface Entry {
  /**
   * Where the desired state comes from. `stored`: it was loaded from disk after a restart, and the control plane has
   * not repeated it since.
   */
  source: 'stored' | 'reported'
  desired: VolumeSnapshotPut
  done: SnapshotDone | undefined
  busy: boolean
}

/**
 * Number of attempts to take a snapshot. An attempt fails if the VM stops during it. The volume is then detached, and
 * the next attempt needs no VM.
 */
const tries = 50
const pauseMs = 200

/**
 * `copies` serializes the copies that a VMM makes of one volume, because they use the same names in the VMM and compete
 * for the disk.
 */
type Parts = VolumeSnapshotsDeps & { readonly copies: KeyedMutex }

export function createVolumeSnapshots(deps: VolumeSnapshotsDeps): VolumeSnapshots {
  const { store, mutex, log } = deps
  const parts: Parts = { ...deps, copies: createKeyedMutex() }
  const entries = new Map<string, Entry>()
  let stopped = false

  const work = async (entry: Entry) => {
    const { desired } = entry
    const { snapshotId, volumeId } = desired
    if (desired.want === 'absent') {
      await mutex.take(volumeId, () => poolOf(deps.pools, desired.pool).removeSnapshot(volumeId, snapshotId))
      await store.bury('snapshot', snapshotId, desired.generation)
      entries.delete(snapshotId)
      deps.onObserved(absent(desired))
      return
    }
    if (!isDue(entry)) return
    entry.done = undefined
    deps.onObserved(observe(entry))
    const done = await outcomeOf(parts, desired)
    // The result is stored before it is reported, so that a reported snapshot survives a crash.
    await store.saveSnapshotDone(snapshotId, done)
    entry.done = done
    deps.onObserved(observe(entry))
  }

  const follow = (entry: Entry): void => {
    if (entry.busy || stopped) return
    if (entry.source === 'stored' && deps.pools.get(entry.desired.pool)?.shared) return
    entry.busy = true
    const { desired } = entry
    work(entry)
      .catch((err: unknown) =>
        log.error({ snapshotId: desired.snapshotId, err }, 'cannot take or remove the snapshot of a volume'),
      )
      .finally(() => {
        entry.busy = false
        if (entry.desired !== desired && entries.has(desired.snapshotId)) follow(entry)
      })
  }

  return {
    load(stored) {
      for (const one of stored) entries.set(one.desired.snapshotId, { ...one, source: 'stored', busy: false })
    },
    resume() {
      for (const entry of entries.values()) follow(entry)
    },
    async put(desired) {
      if (!isVmId(desired.snapshotId) || !isVmId(desired.volumeId))
        throw new StepError(
          'invalid_snapshot',
          'invalid id of a volume or snapshot: only letters, digits, - and _ are allowed',
        )
      const known = entries.get(desired.snapshotId)
      const generation = known?.desired.generation ?? (await store.buriedGeneration('snapshot', desired.snapshotId))
      if (desired.generation < generation)
        throw new StepError('stale_generation', `generation ${desired.generation} is older than ${generation}`)
      if (desired.generation === generation) {
        if (!known) return absent(desired)
        known.source = 'reported'
        follow(known)
        return observe(known)
      }
      poolOf(deps.pools, desired.pool)
      await store.saveDesiredSnapshot(desired)
      const entry = known ?? { source: 'reported', desired, done: undefined, busy: false }
      entry.source = 'reported'
      entry.desired = desired
      entries.set(desired.snapshotId, entry)
      follow(entry)
      return observe(entry)
    },
    forgetOf(volumeId) {
      for (const [snapshotId, { desired, busy }] of entries) {
        if (desired.volumeId !== volumeId || busy) continue
        entries.delete(snapshotId)
        store
          .forgetSnapshot(snapshotId)
          .catch((err: unknown) => log.warn({ snapshotId, err }, 'cannot delete the record of a removed snapshot'))
      }
    },
    stop() {
      stopped = true
    },
  }
}

/** Whether the snapshot has to be taken. A failed snapshot is only taken again for a newer generation. */
function isDue({ done, desired }: Entry): boolean {
  return done === undefined || ('error' in done && done.generation < desired.generation)
}

async function outcomeOf(deps: Parts, desired: VolumeSnapshotPut): Promise<SnapshotDone> {
  const { volumeId, snapshotId, generation } = desired
  try {
    const pool = poolOf(deps.pools, desired.pool)
    const before = await pool.usage(volumeId)
    const stoodMs = await take(deps, desired)
    const after = await pool.usage(volumeId)
    return { sizeBytes: Math.max(0, after.snapshotBytes - before.snapshotBytes), pauseMs: stoodMs }
  } catch (error) {
    deps.log.warn({ snapshotId, err: error }, 'cannot take the snapshot of a volume')
    return { error: StepError.of(error).message, generation }
  }
}

/**
 * Takes the snapshot. Returns how long the VM that writes to the volume was paused; 0 if no VM writes to it. Does not
 * hold the volume's mutex while it waits for a VM, because the VM may be waiting for that mutex.
 */
async function take(deps: Parts, desired: VolumeSnapshotPut) {
  const { volumeId, snapshotId } = desired
  const pool = poolOf(deps.pools, desired.pool)
  const writer = () => deps.holders.writer(volumeId)
  const act = () => pool.snapshot(volumeId, snapshotId)
  const withoutVm = async () => {
    if (writer() === undefined) await act()
    return writer() === undefined
  }
  for (let n = 0; n < tries; n++) {
    const vmId = writer()
    if (vmId === undefined) {
      if (await deps.mutex.take(volumeId, withoutVm)) return 0
    } else {
      const copier = (await pool.copies?.()) === true ? deps.copierOf(vmId) : undefined
      const byVmm = async () => (writer() === vmId && copier ? takeBy(deps, pool, desired, vmId, copier) : undefined)
      const taken = copier ? deps.copies.take(volumeId, byVmm) : deps.quiesce(vmId, volumeId, act)
      const stoodMs = await taken.catch(notRunning)
      if (stoodMs !== undefined) return stoodMs
    }
    await sleep(pauseMs)
  }
  throw new StepError('volume_in_use', 'the VM that uses the volume keeps starting and stopping: retry later')
}

/**
 * Takes the snapshot with the VM's hypervisor: pauses the VM for a moment, and then copies the volume's content as of
 * that moment while the VM runs.
 */
async function takeBy(
  { quiesce, mutex }: VolumeSnapshotsDeps,
  pool: VolumePool,
  { volumeId, snapshotId }: VolumeSnapshotPut,
  vmId: string,
  copier: DiskCopier,
): Promise<number> {
  let stoodMs = 0
  await pool.snapshotBy?.(volumeId, snapshotId, async file => {
    await using copy = await copier(volumeId, file)
    stoodMs = await quiesce(vmId, volumeId, () => copy.begin())
    // The volume's mutex prevents other operations on the volume during the copy.
    await mutex.take(volumeId, () => copy.whole())
  })
  return stoodMs
}

/**
 * Returns undefined for the error that a VM has just stopped or does not run yet. The caller then checks again which VM
 * writes to the volume.
 */
function notRunning(error: unknown): undefined {
  if (error instanceof StepError && error.code === 'vm_not_running') return undefined
  throw error
}

function observe({ desired, done }: Entry): VolumeSnapshotObserved {
  const { snapshotId, volumeId, generation } = desired
  const base = { snapshotId, volumeId, generation, sizeBytes: 0, pauseMs: null, error: null }
  if (desired.want === 'absent') return { ...base, state: 'removing' }
  if (done === undefined) return { ...base, state: 'creating' }
  if ('error' in done) return { ...base, state: 'failed', error: done.error }
  return { ...base, state: 'ready', ...done }
}

const absent = ({ snapshotId, volumeId, generation }: VolumeSnapshotPut): VolumeSnapshotObserved => ({
  snapshotId,
  volumeId,
  generation,
  state: 'absent',
  sizeBytes: 0,
  pauseMs: null,
  error: null,
})
