/** Reconciles each volume with its desired state. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumePut } from '../../contract/agent.ts'
import { StepError } from '../base/step-error.ts'
import type { Content } from '../disk/pool.ts'
import { absent, nextAction, observe, type VolumeAction } from './decide.ts'
import { poolOf, type VolumesDeps } from './deps.ts'
import type { Moves } from './move/moves.ts'
import type { VolumeDone } from './store.ts'

/** A volume of this host, with its desired state and progress. */
export interface Entry {
  /**
   * Where the desired state comes from. `stored`: it was loaded from disk after a restart, and the control plane has
   * not repeated it since.
   */
  source: 'stored' | 'reported'
  desired: VolumePut
  done: VolumeDone
  busy: boolean
}

/** The volumes of this host, with the dependencies and state that reconciliation needs. */
export interface VolumeTable {
  readonly deps: VolumesDeps
  /** Volumes by their ids. */
  readonly entries: Map<string, Entry>
  /** Keys of encrypted volumes, by volume id. */
  readonly keys: Map<string, string>
  readonly moves: Moves
  stopped: boolean
}

const brokenPauseMs = 1_000

/** Reconciles the volume until it has reached its desired state, has failed, or must wait for a VM. */
export function follow(table: VolumeTable, entry: Entry): void {
  const { deps, entries, moves } = table
  moves.follow(entry.desired, entry.done.received)
  if (entry.busy || table.stopped) return
  entry.busy = true
  const { volumeId } = entry.desired
  takeSteps(table, entry)
    .catch(async (err: unknown) => {
      // The steps can fail because the disk is full, or because the pool is no longer configured. Retry after a pause.
      deps.log.error({ volumeId, err }, 'cannot reconcile the volume; retrying')
      await sleep(brokenPauseMs, undefined, { ref: false })
    })
    .finally(() => {
      entry.busy = false
      const action = next(table, entry)
      // Continue if the desired state has changed, or a VM has detached the volume, during the last step.
      if (entries.get(volumeId) === entry && action !== 'rest' && action !== 'remove') follow(table, entry)
    })
}

export const report = ({ deps, moves }: VolumeTable, entry: Entry): void =>
  deps.onObserved(observe(entry, moves.observed(entry.desired.volumeId)))

export async function finish({ store }: Pick<VolumesDeps, 'store'>, entry: Entry, done: VolumeDone): Promise<void> {
  // The progress is stored before it is reported, so that a reported state survives a crash.
  await store.saveDone(entry.desired.volumeId, done)
  entry.done = done
}

async function takeSteps(table: VolumeTable, entry: Entry): Promise<void> {
  const { volumeId } = entry.desired
  report(table, entry)
  while (!table.stopped && table.entries.get(volumeId) === entry) {
    const went = await table.deps.mutex.take(volumeId, () => step(table, entry))
    if (went === false) return
    if (went === 'notify-vms') await notifyVms(table.deps, entry)
    report(table, entry)
    // The transfer is awaited without the volume's mutex, because the transfer may be waiting for that mutex.
    if (entry.desired.want === 'absent') await table.moves.ended(volumeId)
  }
}

function next({ deps, keys }: VolumeTable, entry: Entry): VolumeAction {
  const { volumeId, pool: name } = entry.desired
  const pool = deps.pools.get(name)
  // In a shared pool, a stored request is not repeated after a restart: another host may have carried it out, and VMs
  // may have written to the volume since.
  if (entry.source === 'stored' && pool?.shared) return 'rest'
  const action = nextAction(entry, deps.holders.of(volumeId).length > 0)
  // Without its key, an encrypted volume is not created until the control plane has sent the key with its next request.
  const isLocked = pool?.encrypted === true && !keys.has(volumeId)
  return action === 'create' && isLocked ? 'rest' : action
}

/**
 * Performs the next action. Returns false if there is none, and `notify-vms` if the VMs that use the volume must learn
 * its new size.
 */
async function step(table: VolumeTable, entry: Entry): Promise<boolean | 'notify-vms'> {
  const { deps } = table
  const { desired, done } = entry
  const { volumeId, generation } = desired
  const action = next(table, entry)
  if (action === 'rest') return false
  if (action === 'remove') return remove(table, entry)
  // A pool that is not configured throws here, outside the `try` block, so that it does not count as a failure of the
  // volume.
  poolOf(deps.pools, desired.pool)
  try {
    await changes[action](table, entry)
  } catch (error) {
    deps.log.warn({ volumeId, action, err: error }, 'cannot reconcile the volume with its desired state')
    await finish(deps, entry, { ...done, failure: { generation, error: StepError.of(error).message } })
  }
  if (action !== 'grow') return true
  // VMs are only notified after the volume's mutex is released, because a VM may be waiting for that mutex.
  return entry.done.failure?.generation === generation ? true : 'notify-vms'
}

/** Removes the volume. Returns true if its transfer must end before that, false once the volume is removed. */
async function remove({ deps, entries, keys, moves }: VolumeTable, { desired }: Entry): Promise<boolean> {
  const { volumeId, generation } = desired
  const pool = poolOf(deps.pools, desired.pool)
  // `ended` cancels the transfer. The volume is removed after the transfer has ended.
  if (moves.ended(volumeId)) return true
  await pool.remove(volumeId)
  await deps.store.bury('volume', volumeId, generation)
  entries.delete(volumeId)
  keys.delete(volumeId)
  deps.onObserved(absent(volumeId, generation))
  return false
}

type Change = (table: VolumeTable, entry: Entry) => Promise<void>

const changes = { create, arrive, restore, grow } satisfies Record<Exclude<VolumeAction, 'rest' | 'remove'>, Change>

async function create({ deps, keys }: VolumeTable, entry: Entry): Promise<void> {
  const { desired, done } = entry
  const { volumeId, sizeMib, from } = desired
  const pool = poolOf(deps.pools, desired.pool)
  await pool.create(volumeId, sizeMib, from ?? (await contentOf(deps, desired)), keys.get(volumeId))
  // The volume may be smaller than requested: it may be a clone of a smaller snapshot, or exist in a shared pool where
  // another host created it.
  if (from || pool.shared) await pool.grow(volumeId, sizeMib)
  // A restore that was requested before the volume was created counts as done, because there is no content to replace.
  await finish(deps, entry, { ...done, created: true, sizeMib, failure: null })
}

async function arrive({ deps }: VolumeTable, entry: Entry): Promise<void> {
  const { desired, done } = entry
  const { volumeId, sizeMib } = desired
  if (done.received !== desired.arrived?.transferId)
    throw new StepError(
      'volume_missing',
      `this host does not have the content of volume ${volumeId} that the source host sent`,
    )
  await poolOf(deps.pools, desired.pool).grow(volumeId, sizeMib)
  // The received content already includes the last restore that was requested.
  const restored = desired.restore?.count ?? 0
  await finish(deps, entry, { ...done, created: true, restored, sizeMib, failure: null })
}

async function restore({ deps }: VolumeTable, entry: Entry): Promise<void> {
  const { desired, done } = entry
  const { volumeId, sizeMib } = desired
  if (!desired.restore) throw new Error('BUG: a volume without a requested restore is restored')
  const pool = poolOf(deps.pools, desired.pool)
  await pool.restore(volumeId, desired.restore.snapshotId)
  await pool.grow(volumeId, sizeMib)
  await finish(deps, entry, { ...done, restored: desired.restore.count, sizeMib, failure: null })
}

/** Grows the volume in its pool. The new size is recorded later, when the VMs use it (`notifyVms`). */
async function grow({ deps }: VolumeTable, { desired }: Entry): Promise<void> {
  await poolOf(deps.pools, desired.pool).grow(desired.volumeId, desired.sizeMib)
}

/**
 * Returns the initial content of a new volume. If the content is unavailable, the volume starts empty, and the image's
 * own program creates its files.
 */
async function contentOf(
  { contentOf: contentOfImage, log }: VolumesDeps,
  { volumeId, image }: VolumePut,
): Promise<Content | undefined> {
  const directory =
    image &&
    (await contentOfImage(image).catch(
      err => void log.warn({ volumeId, err }, 'cannot get the initial content of the volume; it starts empty'),
    ))
  return directory ? { directory } : undefined
}

/**
 * Makes the VMs that have the volume open use its new size. A VM that stops during this call uses the size at its next
 * start.
 */
async function notifyVms(deps: VolumesDeps, entry: Entry): Promise<void> {
  const { volumeId, sizeMib, generation } = entry.desired
  try {
    for (const vmId of deps.holders.of(volumeId)) await deps.grow(vmId, volumeId, sizeMib).catch(notRunning)
    await finish(deps, entry, { ...entry.done, sizeMib, failure: null })
  } catch (error) {
    deps.log.warn({ volumeId, err: error }, 'a VM cannot make use of a volume that has grown')
    await finish(deps, entry, { ...entry.done, failure: { generation, error: StepError.of(error).message } })
  }
}

/** Ignores the error that a VM is not running: it uses the new size at its next start. */
function notRunning(error: unknown): void {
  if (!(error instanceof StepError && error.code === 'vm_not_running')) throw error
}
