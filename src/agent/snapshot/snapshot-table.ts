/** Reconciles each VM snapshot with its desired state. */
import type { Logger } from 'pino'
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotMade } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import { createTransfers, type Transfers } from '../hypervisor/transfer/transfers.ts'
import { createRoom, type ReceiveDeps, receiveSnapshot, sendSnapshot } from './move.ts'
import { digestOf, type Outcome, type SnapshotStore, type Taken } from './store.ts'

export interface SnapshotsDeps extends Pick<ReceiveDeps, 'kinds' | 'makeBase' | 'migrationHost'> {
  readonly store: SnapshotStore
  /** Checks that the VM's hypervisor supports snapshots. @throws StepError `unsupported_by_hypervisor` */
  readonly check: (vmId: string) => void
  /** Takes a snapshot of the running VM, and writes its files into `dir`. */
  readonly take: (desired: SnapshotPut, dir: string) => Promise<SnapshotMade>
  /** Returns the ids of the VM's volumes; empty if this host does not have the VM. */
  readonly disksOf: (vmId: string) => readonly string[]
  /** Removes the snapshot's copy of a volume. Idempotent. */
  readonly dropCopy: (volumeId: string, snapshotId: string) => Promise<void>
  /** Removes the snapshot's copies of any volume on this host. Idempotent. */
  readonly dropCopies: (snapshotId: string) => Promise<void>
  /** Whether a VM of this host was started from the snapshot and may need its files. */
  readonly inUse: (snapshotId: string) => boolean
  readonly onObserved: (observed: SnapshotObserved) => void
  readonly log: Logger
}

export interface Entry {
  desired: SnapshotPut
  outcome: Outcome | undefined
  busy: Promise<void> | undefined
  /** Resolves when the files' hash has been verified, which happens once while the agent runs. Undefined before. */
  verified: Promise<void> | undefined
  /** Whether the snapshot's files are being removed. */
  leaving?: boolean
}

/** The VM snapshots of this host, with the dependencies and state that reconciliation needs. */
export interface SnapshotTable {
  readonly deps: SnapshotsDeps
  /** Snapshots by their ids. */
  readonly entries: Map<string, Entry>
  readonly moves: Transfers<SnapshotPut>
  stopped: boolean
}

export function openTable(deps: SnapshotsDeps): SnapshotTable {
  const entries = new Map<string, Entry>()
  const publish = (entry: Entry) => publishObserved(table, entry)
  const moves = snapshotMoves(deps, id => entries.get(id), publish)
  const table: SnapshotTable = { deps, entries, moves, stopped: false }
  return table
}

/** Reconciles one snapshot with its desired state, one step at a time, until it matches or has to wait. */
export function follow(table: SnapshotTable, entry: Entry): void {
  if (table.stopped) return
  table.moves.follow(entry.desired, takenOf(entry)?.received)
  if (entry.busy) return
  const { desired } = entry
  const failed = (err: unknown) =>
    table.deps.log.error({ snapshotId: entry.desired.snapshotId, err }, 'cannot reconcile the snapshot')
  entry.busy = step(table, entry)
    .catch(failed)
    .then(() => {
      entry.busy = undefined
      if (entry.desired !== desired && table.entries.has(desired.snapshotId)) follow(table, entry)
    })
}

/** Verifies the hash of the snapshot's files, once while the agent runs. @throws StepError `snapshot_damaged` */
export function verify({ store }: SnapshotsDeps, entry: Entry, sha256: string): Promise<void> {
  entry.verified ??= digestOf(store.filesDir(entry.desired.snapshotId)).then(found => {
    if (found.sha256 === sha256) return
    throw new StepError('snapshot_damaged', 'the snapshot is damaged: its contents do not match its hash')
  })
  return entry.verified
}

async function step(table: SnapshotTable, entry: Entry): Promise<void> {
  const { deps } = table
  if (entry.desired.want === 'present' && isDue(entry)) await take(table, entry)
  else if (entry.desired.want === 'absent' && !deps.inUse(entry.desired.snapshotId)) return remove(table, entry)
  publishObserved(table, entry)
}

async function remove({ deps, entries, moves }: SnapshotTable, entry: Entry): Promise<void> {
  entry.leaving = true
  await moves.ended(entry.desired.snapshotId)
  await dropCopies(deps, entry)
  await deps.store.bury(entry.desired)
  entries.delete(entry.desired.snapshotId)
  deps.onObserved(absent(entry.desired))
}

const publishObserved = ({ deps, moves }: SnapshotTable, entry: Entry): void => deps.onObserved(observe(entry, moves))

export const takenOf = ({ outcome }: Pick<Entry, 'outcome'>): Taken | undefined =>
  outcome && 'made' in outcome ? outcome : undefined

/** Creates the transfers of VM snapshots to and from other hosts. */
function snapshotMoves(
  { store, kinds, makeBase, migrationHost, log }: SnapshotsDeps,
  find: (snapshotId: string) => Entry | undefined,
  publish: (entry: Entry) => void,
): Transfers<SnapshotPut> {
  const room = createRoom()
  const keep = async (snapshotId: string, taken: Taken) => {
    const entry = find(snapshotId)
    if (!entry || entry.desired.incoming?.transferId !== taken.received)
      throw new Error('this transfer of the snapshot is no longer wanted')
    await store.saveOutcome(snapshotId, taken)
    entry.outcome = taken
    entry.verified = Promise.resolve()
  }
  return createTransfers<SnapshotPut>({
    idOf: ({ snapshotId }) => snapshotId,
    async receive(desired, received, move) {
      if (received !== undefined && received === desired.incoming?.transferId)
        return move.report({ phase: 'complete', percent: 100 })
      await receiveSnapshot(
        { store, kinds, room, makeBase, migrationHost, keep: taken => keep(desired.snapshotId, taken) },
        desired,
        move,
      )
    },
    async send(desired, move) {
      const entry = find(desired.snapshotId)
      const taken = entry && takenOf(entry)
      if (!taken) throw new StepError('snapshot_missing', 'this host does not have the snapshot')
      await sendSnapshot(store.filesDir(desired.snapshotId), taken, desired, move)
    },
    onChange(snapshotId) {
      const entry = find(snapshotId)
      if (entry) publish(entry)
    },
    log,
  })
}

/** Whether the snapshot arrives from another host or was already taken, so that this host must not take it. */
export const isElsewhere = ({ incoming, arrived, taken }: SnapshotPut) => Boolean(incoming ?? arrived ?? taken)

/** Whether this host has to take the snapshot. A failed snapshot is only taken again for a newer generation. */
function isDue({ outcome, desired }: Entry): boolean {
  if (isElsewhere(desired)) return false
  return outcome === undefined || ('error' in outcome && outcome.generation < desired.generation)
}

async function take(table: SnapshotTable, entry: Entry): Promise<void> {
  const { deps } = table
  entry.outcome = undefined
  publishObserved(table, entry)
  const outcome = await outcomeOf(deps, entry.desired)
  // The outcome is stored before it is reported, so that a ready snapshot stays ready after a restart of the agent.
  await deps.store.saveOutcome(entry.desired.snapshotId, outcome)
  entry.outcome = outcome
  entry.verified = 'error' in outcome ? undefined : Promise.resolve()
}

async function outcomeOf({ store, log, ...deps }: SnapshotsDeps, desired: SnapshotPut): Promise<Outcome> {
  const { snapshotId, generation } = desired
  try {
    const made = await store.make(snapshotId, dir => deps.take(desired, dir))
    return { made, ...(await digestOf(store.filesDir(snapshotId))) }
  } catch (error) {
    log.warn({ snapshotId, err: error }, 'cannot take the snapshot')
    return { error: StepError.of(error).message, generation }
  }
}

export function observe(
  { desired, outcome }: Entry,
  moves: Pick<Transfers<SnapshotPut>, 'observed'>,
): SnapshotObserved {
  const { snapshotId, vmId, generation } = desired
  const transfer = moves.observed(snapshotId)
  const none = { sizeBytes: 0, sha256: null, madeBy: null, pauseMs: null, error: null }
  const base = { snapshotId, vmId, generation, ...none, ...(transfer ? { transfer } : {}) }
  if (desired.want === 'absent') return { ...base, state: 'removing' }
  if (desired.incoming) return { ...base, state: 'creating' }
  if (!isCome({ desired, outcome })) return { ...base, state: 'failed', error: notHere }
  if (outcome === undefined)
    return desired.taken ? { ...base, state: 'failed', error: notHere } : { ...base, state: 'creating' }
  if ('error' in outcome) return { ...base, state: 'failed', error: outcome.error }
  const { sha256, sizeBytes, made } = outcome
  const disks = made.disks ? { disks: [...made.disks] } : {}
  return { ...base, state: 'ready', sha256, sizeBytes, madeBy: made.madeBy, pauseMs: made.pauseMs, ...disks }
}

/**
 * Whether this host received the snapshot with the transfer that the desired state names. True if the desired state
 * names none.
 */
export const isCome = ({ desired, outcome }: Pick<Entry, 'desired' | 'outcome'>) =>
  desired.arrived === undefined || takenOf({ outcome })?.received === desired.arrived.transferId
const notHere = 'this host does not have the snapshot, or has another one than the transfer was for'

/**
 * Removes the snapshot's copies of volumes. A failed snapshot may have copies of any volume of its VM. An unfinished
 * transfer may have copies of any volume on this host.
 */
async function dropCopies({ dropCopy, disksOf, ...deps }: SnapshotsDeps, { desired, outcome }: Entry): Promise<void> {
  const { snapshotId, vmId } = desired
  if (outcome === undefined) return deps.dropCopies(snapshotId)
  const made = 'made' in outcome ? (outcome.made.disks ?? []) : undefined
  const volumeIds = made?.filter(disk => disk.copied).map(disk => disk.volumeId) ?? disksOf(vmId)
  for (const volumeId of volumeIds) await dropCopy(volumeId, snapshotId)
}

export function absent({
  snapshotId,
  vmId,
  generation,
}: Pick<SnapshotPut, 'snapshotId' | 'vmId' | 'generation'>): SnapshotObserved {
  return {
    snapshotId,
    vmId,
    generation,
    state: 'absent',
    sizeBytes: 0,
    sha256: null,
    madeBy: null,
    pauseMs: null,
    error: null,
  }
}
