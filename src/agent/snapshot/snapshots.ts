/** The VM snapshots of a host: takes, verifies, transfers and removes them. */
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotSource } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import {
  absent,
  follow,
  isCome,
  isElsewhere,
  observe,
  openTable,
  type SnapshotsDeps,
  type SnapshotTable,
  takenOf,
  verify,
} from './snapshot-table.ts'

/** All VM snapshots of this host. */
export interface Snapshots {
  /** Loads the stored snapshots when the agent starts, so that VMs can start from them. */
  load(): Promise<void>
  /** Takes incomplete snapshots again, and removes unwanted ones. Called after the agent has loaded its VMs. */
  resume(): void
  /** Sets the desired state of a snapshot. @throws StepError `stale_generation`, `invalid_snapshot` */
  put(desired: SnapshotPut): Promise<SnapshotObserved>
  get(snapshotId: string): Promise<SnapshotObserved>
  /**
   * Returns a complete, verified snapshot to start a VM from. @throws StepError `snapshot_missing`, `snapshot_damaged`
   */
  source(snapshotId: string): Promise<Omit<SnapshotSource, 'renew'>>
  /** Whether this host has the snapshot or is taking it. */
  has(snapshotId: string): boolean
  /** Whether this host had the snapshot, and has removed it or is about to. */
  isGone(snapshotId: string): Promise<boolean>
  /** Retries to remove snapshots that a VM was using. Called when a VM has stopped. */
  poke(): void
  /** Stops to work on snapshots. Resolves when no operation is in progress. */
  stop(): Promise<void>
}

export function createSnapshots(deps: SnapshotsDeps): Snapshots {
  const { store } = deps
  const table = openTable(deps)
  const { entries, moves } = table
  return {
    async load() {
      for (const stored of await store.load()) {
        entries.set(stored.desired.snapshotId, { ...stored, busy: undefined, verified: undefined })
      }
    },
    resume() {
      for (const entry of entries.values()) follow(table, entry)
    },
    put: desired => put(table, desired),
    async get(snapshotId) {
      const entry = entries.get(snapshotId)
      return entry ? observe(entry, moves) : absent({ snapshotId, vmId: '', generation: 0 })
    },
    source: snapshotId => source(table, snapshotId),
    has(snapshotId) {
      const entry = entries.get(snapshotId)
      const failed = entry?.outcome !== undefined && 'error' in entry.outcome
      return entry?.desired.want === 'present' && !failed
    },
    async isGone(snapshotId) {
      const entry = entries.get(snapshotId)
      return entry ? entry.desired.want === 'absent' : (await store.buriedGeneration(snapshotId)) > 0
    },
    poke() {
      for (const entry of entries.values()) if (entry.desired.want === 'absent') follow(table, entry)
    },
    async stop() {
      table.stopped = true
      moves.stop()
      await Promise.all([...entries.values()].map(entry => entry.busy))
    },
  }
}

async function put(table: SnapshotTable, desired: SnapshotPut): Promise<SnapshotObserved> {
  const { deps, entries, moves } = table
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(desired.snapshotId)) {
    throw new StepError(
      'invalid_snapshot',
      `invalid snapshot id "${desired.snapshotId}": only letters, digits, - and _ are allowed`,
    )
  }
  const known = entries.get(desired.snapshotId)
  const generation = known?.desired.generation ?? (await deps.store.buriedGeneration(desired.snapshotId))
  if (desired.generation < generation) {
    throw new StepError('stale_generation', `generation ${desired.generation} is older than ${generation}`)
  }
  if (desired.generation === generation) {
    if (known) follow(table, known)
    return known ? observe(known, moves) : absent(desired)
  }
  if (known === undefined && desired.want === 'absent') {
    await deps.store.bury(desired)
    return absent(desired)
  }
  if (desired.incoming && known && takenOf(known) && takenOf(known)?.received !== desired.incoming.transferId)
    throw new StepError('invalid_snapshot', 'this host has the snapshot already')
  if (desired.want === 'present' && !isElsewhere(desired)) deps.check(desired.vmId)
  await deps.store.saveDesired(desired)
  const entry = known ?? { desired, outcome: undefined, busy: undefined, verified: undefined }
  entry.desired = desired
  entries.set(desired.snapshotId, entry)
  follow(table, entry)
  return observe(entry, moves)
}

async function source({ deps, entries }: SnapshotTable, snapshotId: string): Promise<Omit<SnapshotSource, 'renew'>> {
  const entry = entries.get(snapshotId)
  const outcome = entry && takenOf(entry)
  // A snapshot from another host is usable once the control plane has confirmed its transfer. A snapshot that is to be
  // removed remains usable for a VM that was requested to start from it before.
  if (!entry || !outcome || entry.leaving || entry.desired.incoming || !isCome(entry)) {
    throw new StepError('snapshot_missing', `this host has no snapshot ${snapshotId}`)
  }
  await verify(deps, entry, outcome.sha256)
  return { dir: deps.store.filesDir(snapshotId), made: outcome.made }
}
