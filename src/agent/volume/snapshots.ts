import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumeSnapshotObserved, VolumeSnapshotPut } from '../../contract/agent.ts'
import { createKeyedMutex, type KeyedMutex } from '../../lib/keyed-mutex.ts'
import { isVmId } from '../base/vm-id.ts'
import type { VolumePool } from '../disk/pool.ts'
import type { DiskCopier } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import type { SnapshotDone, StoredSnapshot } from './store.ts'
import { poolOf, type StorageDeps } from './volumes.ts'

export interface VolumeSnapshotsDeps extends StorageDeps {
  /**
   * Does something while the VM stands still and nothing in it writes to the volume; answers for how long, ms.
   * @throws StepError `vm_not_running` when there is no machine any more
   */
  readonly still: (vmId: string, volumeId: string, act: () => Promise<void>) => Promise<number>
  /** What copies volumes of the VM while it runs; undefined: it has to stand still for that. */
  readonly copierOf: (vmId: string) => DiskCopier | undefined
  readonly onObserved: (observed: VolumeSnapshotObserved) => void
}

/** All snapshots of volumes of this host. */
export interface VolumeSnapshots {
  load(stored: readonly StoredSnapshot[]): void
  /**
   * Once it is known which VMs have which volumes: half-taken ones are taken anew. In a pool that several hosts reach only with
   * the next `put`: another one may have been asked in place of this one, and VMs have written since.
   */
  resume(): void
  /** @throws StepError `stale_generation`, `invalid_snapshot`, `no_such_pool` */
  put(desired: VolumeSnapshotPut): Promise<VolumeSnapshotObserved>
  /** The volume has gone from this host, and they with it. */
  forgetOf(volumeId: string): void
  stop(): void
}

interface Entry {
  /** `stored`: left by an earlier agent, and not told again since. */
  source: 'stored' | 'reported'
  desired: VolumeSnapshotPut
  done: SnapshotDone | undefined
  busy: boolean
}

/** A VM that ends under our hands lets go of the volume; then it is taken without it. */
const tries = 50
const pauseMs = 200

/** Copies of one volume by its VMM go one after the other: they share names there, and the disk. */
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
    // Stored before it is told: what was ready once stays ready.
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
        log.error({ snapshotId: desired.snapshotId, err }, 'cannot follow the snapshot of a volume'),
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
        throw new StepError('invalid_snapshot', 'ids of volumes and snapshots have letters, digits, - and _ only')
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
          .catch((err: unknown) => log.warn({ snapshotId, err }, 'a note of a snapshot that has gone stays'))
      }
    },
    stop() {
      stopped = true
    },
  }
}

/** A failure stands until there is a newer wish. */
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
 * How long the VM that writes to the volume stood still; 0 when none does. Waiting for a VM never holds the volume's
 * turn: the VM may be waiting for that itself.
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
      const taken = copier ? deps.copies.take(volumeId, byVmm) : deps.still(vmId, volumeId, act)
      const stoodMs = await taken.catch(notRunning)
      if (stoodMs !== undefined) return stoodMs
    }
    await sleep(pauseMs)
  }
  throw new StepError('volume_in_use', 'the VM that has the volume does not come to rest')
}

/** The VM stands still for the instant only; its hypervisor copies what the volume held then. */
async function takeBy(
  { still, mutex }: VolumeSnapshotsDeps,
  pool: VolumePool,
  { volumeId, snapshotId }: VolumeSnapshotPut,
  vmId: string,
  copier: DiskCopier,
): Promise<number> {
  let stoodMs = 0
  await pool.snapshotBy?.(volumeId, snapshotId, async file => {
    await using copy = await copier(volumeId, file)
    stoodMs = await still(vmId, volumeId, () => copy.begin())
    // Nothing else is done to the volume meanwhile. The hypervisor waits for nobody.
    await mutex.take(volumeId, () => copy.whole())
  })
  return stoodMs
}

/** It has just ended, or does not run yet: who has the volume is looked up again. */
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
