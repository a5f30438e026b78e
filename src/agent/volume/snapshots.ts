import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumeSnapshotObserved, VolumeSnapshotPut } from '../../contract/agent.ts'
import { createTurns, type Turns } from '../../lib/turns.ts'
import { isVmId } from '../state.ts'
import type { VolumePool } from '../disk/pool.ts'
import type { DiskCopier } from '../hypervisor/driver.ts'
import { StepError } from '../vm/errors.ts'
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
  readonly onSeen: (seen: VolumeSnapshotObserved) => void
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
  put(wish: VolumeSnapshotPut): Promise<VolumeSnapshotObserved>
  /** The volume has gone from this host, and they with it. */
  forgetOf(volumeId: string): void
  stop(): void
}

interface Entry {
  /** `stored`: left by an earlier agent, and not told again since. */
  source: 'stored' | 'told'
  wish: VolumeSnapshotPut
  done: SnapshotDone | undefined
  busy: boolean
}

/** A VM that ends under our hands lets go of the volume; then it is taken without it. */
const tries = 50
const pauseMs = 200

/** Copies of one volume by its VMM go one after the other: they share names there, and the disk. */
type Parts = VolumeSnapshotsDeps & { readonly copies: Turns }

export function createVolumeSnapshots(deps: VolumeSnapshotsDeps): VolumeSnapshots {
  const { store, turns, log } = deps
  const parts: Parts = { ...deps, copies: createTurns() }
  const entries = new Map<string, Entry>()
  let stopped = false

  const work = async (entry: Entry) => {
    const { wish } = entry
    const { snapshotId, volumeId } = wish
    if (wish.want === 'absent') {
      await turns.take(volumeId, () => poolOf(deps.pools, wish.pool).removeSnapshot(volumeId, snapshotId))
      await store.bury('snapshot', snapshotId, wish.generation)
      entries.delete(snapshotId)
      deps.onSeen(absent(wish))
      return
    }
    if (!isDue(entry)) return
    entry.done = undefined
    deps.onSeen(observe(entry))
    const done = await outcomeOf(parts, wish)
    // Stored before it is told: what was ready once stays ready.
    await store.saveSnapshotDone(snapshotId, done)
    entry.done = done
    deps.onSeen(observe(entry))
  }

  const follow = (entry: Entry): void => {
    if (entry.busy || stopped) return
    if (entry.source === 'stored' && deps.pools.get(entry.wish.pool)?.shared) return
    entry.busy = true
    const { wish } = entry
    work(entry)
      .catch((err: unknown) =>
        log.error({ snapshotId: wish.snapshotId, err }, 'cannot follow the snapshot of a volume'),
      )
      .finally(() => {
        entry.busy = false
        if (entry.wish !== wish && entries.has(wish.snapshotId)) follow(entry)
      })
  }

  return {
    load(stored) {
      for (const one of stored) entries.set(one.wish.snapshotId, { ...one, source: 'stored', busy: false })
    },
    resume() {
      for (const entry of entries.values()) follow(entry)
    },
    async put(wish) {
      if (!isVmId(wish.snapshotId) || !isVmId(wish.volumeId))
        throw new StepError('invalid_snapshot', 'ids of volumes and snapshots have letters, digits, - and _ only')
      const known = entries.get(wish.snapshotId)
      const generation = known?.wish.generation ?? (await store.buriedGeneration('snapshot', wish.snapshotId))
      if (wish.generation < generation)
        throw new StepError('stale_generation', `generation ${wish.generation} is older than ${generation}`)
      if (wish.generation === generation) {
        if (!known) return absent(wish)
        known.source = 'told'
        follow(known)
        return observe(known)
      }
      poolOf(deps.pools, wish.pool)
      await store.saveSnapshotWish(wish)
      const entry = known ?? { source: 'told', wish, done: undefined, busy: false }
      entry.source = 'told'
      entry.wish = wish
      entries.set(wish.snapshotId, entry)
      follow(entry)
      return observe(entry)
    },
    forgetOf(volumeId) {
      for (const [snapshotId, { wish, busy }] of entries) {
        if (wish.volumeId !== volumeId || busy) continue
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
function isDue({ done, wish }: Entry): boolean {
  return done === undefined || ('error' in done && done.generation < wish.generation)
}

async function outcomeOf(deps: Parts, wish: VolumeSnapshotPut): Promise<SnapshotDone> {
  const { volumeId, snapshotId, generation } = wish
  try {
    const pool = poolOf(deps.pools, wish.pool)
    const before = await pool.usage(volumeId)
    const stoodMs = await take(deps, wish)
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
async function take(deps: Parts, wish: VolumeSnapshotPut) {
  const { volumeId, snapshotId } = wish
  const pool = poolOf(deps.pools, wish.pool)
  const writer = () => deps.holders.writer(volumeId)
  const act = () => pool.snapshot(volumeId, snapshotId)
  const withoutVm = async () => {
    if (writer() === undefined) await act()
    return writer() === undefined
  }
  for (let n = 0; n < tries; n++) {
    const vmId = writer()
    if (vmId === undefined) {
      if (await deps.turns.take(volumeId, withoutVm)) return 0
    } else {
      const copier = (await pool.copies?.()) === true ? deps.copierOf(vmId) : undefined
      const byVmm = async () => (writer() === vmId && copier ? takeBy(deps, pool, wish, vmId, copier) : undefined)
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
  { still, turns }: VolumeSnapshotsDeps,
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
    await turns.take(volumeId, () => copy.whole())
  })
  return stoodMs
}

/** It has just ended, or does not run yet: who has the volume is looked up again. */
function notRunning(error: unknown): undefined {
  if (error instanceof StepError && error.code === 'vm_not_running') return undefined
  throw error
}

function observe({ wish, done }: Entry): VolumeSnapshotObserved {
  const { snapshotId, volumeId, generation } = wish
  const base = { snapshotId, volumeId, generation, sizeBytes: 0, pauseMs: null, error: null }
  if (wish.want === 'absent') return { ...base, state: 'removing' }
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
