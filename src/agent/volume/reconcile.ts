/** Reconciles each volume with its desired state. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { VolumePut } from '../../contract/agent.ts'
import { StepError } from '../base/step-error.ts'
import type { Content } from '../disk/pool.ts'
import { absent, nextAction, observe, type VolumeAction } from './decide.ts'
import { poolOf, type VolumesDeps } from './deps.ts'
import type { Moves } from './move/moves.ts'
import type { VolumeDone } from './store.ts'

/** A volume of this host. */
export interface Entry {
  /** `stored`: loaded from disk after a restart, and not confirmed by the control plane since. */
  source: 'stored' | 'reported'
  desired: VolumePut
  done: VolumeDone
  busy: boolean
}

/** The volumes of this host and what their reconciliation needs. */
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

/** Reconciles until the desired state is reached, has failed, or must wait for a VM. */
export function follow(table: VolumeTable, entry: Entry): void {
  const { deps, entries, moves } = table
  moves.follow(entry.desired, entry.done.received)
  if (entry.busy || table.stopped) return
  entry.busy = true
  const { volumeId } = entry.desired
  takeSteps(table, entry)
    .catch(async (err: unknown) => {
      // For example, because the disk is full or the pool is no longer configured. Retry after a pause.
      deps.log.error({ volumeId, err }, 'cannot reconcile the volume; retrying')
      await sleep(brokenPauseMs, undefined, { ref: false })
    })
    .finally(() => {
      entry.busy = false
      const action = next(table, entry)
      // The desired state changed, or a VM detached, while the last step ended.
      if (entries.get(volumeId) === entry && action !== 'rest' && action !== 'remove') follow(table, entry)
    })
}

export const report = ({ deps, moves }: VolumeTable, entry: Entry): void =>
  deps.onObserved(observe(entry, moves.observed(entry.desired.volumeId)))

export async function finish({ store }: Pick<VolumesDeps, 'store'>, entry: Entry, done: VolumeDone): Promise<void> {
  // Stored before it is reported, so that a reported state survives a crash.
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
    if (entry.desired.want === 'absent') await table.moves.ended(volumeId) // outside the mutex, because the transfer may wait for it
  }
}

function next({ deps, keys }: VolumeTable, entry: Entry): VolumeAction {
  const { volumeId, pool: name } = entry.desired
  const pool = deps.pools.get(name)
  // A request that was stored before a restart is not repeated in a shared pool: another host may have carried it out
  // meanwhile, and VMs may have written to the volume since.
  if (entry.source === 'stored' && pool?.shared) return 'rest'
  const action = nextAction(entry, deps.holders.of(volumeId).length > 0)
  // Without its key, an encrypted volume waits until the control plane sends the key with its next request.
  const isLocked = pool?.encrypted === true && !keys.has(volumeId)
  return action === 'create' && isLocked ? 'rest' : action
}

/**
 * Performs the next action. Returns false if there is none now, `notify-vms` if VMs that have the volume must be
 * notified.
 */
async function step(table: VolumeTable, entry: Entry): Promise<boolean | 'notify-vms'> {
  const { deps } = table
  const { desired, done } = entry
  const { volumeId, generation } = desired
  const action = next(table, entry)
  if (action === 'rest') return false
  if (action === 'remove') return remove(table, entry)
  // Outside the try block, because a pool that is not configured is not a failure of the volume.
  poolOf(deps.pools, desired.pool)
  try {
    await changes[action](table, entry)
  } catch (error) {
    deps.log.warn({ volumeId, action, err: error }, 'cannot reconcile the volume with its desired state')
    await finish(deps, entry, { ...done, failure: { generation, error: StepError.of(error).message } })
  }
  if (action !== 'grow') return true
  // Notifies VMs only after the mutex is released, because a VM may be waiting for the mutex.
  return entry.done.failure?.generation === generation ? true : 'notify-vms'
}

/** Returns true if the volume must wait for its transfer to end, false once it is removed. */
async function remove({ deps, entries, keys, moves }: VolumeTable, { desired }: Entry): Promise<boolean> {
  const { volumeId, generation } = desired
  const pool = poolOf(deps.pools, desired.pool)
  if (moves.ended(volumeId)) return true // cancels the transfer; the volume is removed after that has ended
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
  // The clone's source may be a smaller snapshot; in a shared pool, another host may have created the volume smaller.
  if (from || pool.shared) await pool.grow(volumeId, sizeMib)
  // A restore that was requested before the creation has nothing to restore, so it counts as done.
  await finish(deps, entry, { ...done, created: true, sizeMib, failure: null })
}

async function arrive({ deps }: VolumeTable, entry: Entry): Promise<void> {
  const { desired, done } = entry
  const { volumeId, sizeMib } = desired
  if (done.received !== desired.arrived?.transferId)
    throw new StepError('volume_missing', 'what another host sent of the volume is not here')
  await poolOf(deps.pools, desired.pool).grow(volumeId, sizeMib)
  // The content from the other host already includes the last restore.
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

/** Grows the volume in its pool. The new size is only recorded once the VMs use it (`notifyVms`). */
async function grow({ deps }: VolumeTable, { desired }: Entry): Promise<void> {
  await poolOf(deps.pools, desired.pool).grow(desired.volumeId, desired.sizeMib)
}

/**
 * Returns the initial content of a new volume. If it is unavailable, the volume starts empty and the image's program
 * creates what is missing.
 */
async function contentOf(
  { contentOf: contentOfImage, log }: VolumesDeps,
  { volumeId, image }: VolumePut,
): Promise<Content | undefined> {
  const directory =
    image && (await contentOfImage(image).catch(err => void log.warn({ volumeId, err }, 'it begins empty')))
  return directory ? { directory } : undefined
}

/** Makes the VMs that have the volume use its new size. A VM that stops meanwhile uses it at its next start. */
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

/** Ignores the error for a VM that has just stopped, which uses the new size at its next start. */
function notRunning(error: unknown): void {
  if (!(error instanceof StepError && error.code === 'vm_not_running')) throw error
}
