/** VM snapshots of a host: they are taken, verified, transferred to other hosts and removed. */
import type { Logger } from 'pino'
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotMade, SnapshotSource } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'
import { createTransfers, type Transfers } from '../hypervisor/transfer/transfers.ts'
import { createRoom, type ReceiveDeps, receiveSnapshot, sendSnapshot } from './move.ts'
import { digestOf, type Outcome, type SnapshotStore, type Taken } from './store.ts'

export interface SnapshotsDeps extends Pick<ReceiveDeps, 'kinds' | 'makeBase' | 'migrationHost'> {
  readonly store: SnapshotStore
  /** @throws StepError `unsupported_by_hypervisor` */
  readonly check: (vmId: string) => void
  /** Fills the directory with a snapshot of the running VM. */
  readonly take: (desired: SnapshotPut, dir: string) => Promise<SnapshotMade>
  /** Returns the volumes of the VM, if it is on this host. */
  readonly disksOf: (vmId: string) => readonly string[]
  /** Removes the snapshot's copy of a volume. Idempotent. */
  readonly dropCopy: (volumeId: string, snapshotId: string) => Promise<void>
  /** Removes the snapshot's copies of all volumes on this host. Idempotent. */
  readonly dropCopies: (snapshotId: string) => Promise<void>
  /** True if a VM of this host was started from the snapshot and may need its files. */
  readonly inUse: (snapshotId: string) => boolean
  readonly onObserved: (observed: SnapshotObserved) => void
  readonly log: Logger
}

/** All VM snapshots of this host. */
export interface Snapshots {
  /** Loads the stored snapshots, so that VMs can start from them. */
  load(): Promise<void>
  /** Called once the VMs are known: retakes incomplete snapshots, and removes those that are not wanted. */
  resume(): void
  /** @throws StepError `stale_generation`, `invalid_snapshot` */
  put(desired: SnapshotPut): Promise<SnapshotObserved>
  get(snapshotId: string): Promise<SnapshotObserved>
  /** @throws StepError `snapshot_missing`, `snapshot_damaged` */
  source(snapshotId: string): Promise<Omit<SnapshotSource, 'renew'>>
  /** True if this host has the snapshot or is taking it. */
  has(snapshotId: string): boolean
  /** True if this host had the snapshot and it is removed or to be removed. */
  isGone(snapshotId: string): Promise<boolean>
  /** Called when a VM has ended: retries the removal of snapshots that it used. */
  poke(): void
  /** Resolves when all work has stopped. */
  stop(): Promise<void>
}

interface Entry {
  desired: SnapshotPut
  outcome: Outcome | undefined
  busy: Promise<void> | undefined
  /** Verification of its contents against its hash by this agent. */
  verified: Promise<void> | undefined
  /** Its files are being removed. */
  leaving?: boolean
}

export function createSnapshots(deps: SnapshotsDeps): Snapshots {
  const { store, log } = deps
  const entries = new Map<string, Entry>()
  let stopped = false

  const publishObserved = (entry: Entry) => deps.onObserved(observe(entry, moves))
  const moves = snapshotMoves(deps, id => entries.get(id), publishObserved)

  /** Reconciles one snapshot with its desired state, one step at a time, until it matches or has to wait. */
  const follow = (entry: Entry): void => {
    if (stopped) return
    moves.follow(entry.desired, takenOf(entry)?.received)
    if (entry.busy) return
    const work = async () => {
      if (entry.desired.want === 'present' && isDue(entry)) await take(deps, entry, publishObserved)
      else if (entry.desired.want === 'absent' && !deps.inUse(entry.desired.snapshotId)) {
        entry.leaving = true
        await moves.ended(entry.desired.snapshotId)
        await dropCopies(deps, entry)
        await store.bury(entry.desired)
        entries.delete(entry.desired.snapshotId)
        deps.onObserved(absent(entry.desired))
        return
      }
      publishObserved(entry)
    }
    const failed = (err: unknown) =>
      log.error({ snapshotId: entry.desired.snapshotId, err }, 'cannot reconcile the snapshot')
    const { desired } = entry
    entry.busy = work()
      .catch(failed)
      .then(() => {
        entry.busy = undefined
        if (entry.desired !== desired && entries.has(desired.snapshotId)) follow(entry)
      })
  }

  const verify = (entry: Entry, sha256: string): Promise<void> => {
    entry.verified ??= digestOf(store.filesDir(entry.desired.snapshotId)).then(found => {
      if (found.sha256 === sha256) return
      throw new StepError('snapshot_damaged', 'the snapshot is damaged: its contents do not match its hash')
    })
    return entry.verified
  }

  return {
    async load() {
      for (const stored of await store.load()) {
        entries.set(stored.desired.snapshotId, { ...stored, busy: undefined, verified: undefined })
      }
    },
    resume() {
      for (const entry of entries.values()) follow(entry)
    },
    async put(desired) {
      if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(desired.snapshotId)) {
        throw new StepError('invalid_snapshot', 'a snapshot id may contain only letters, digits, - and _')
      }
      const known = entries.get(desired.snapshotId)
      const generation = known?.desired.generation ?? (await store.buriedGeneration(desired.snapshotId))
      if (desired.generation < generation) {
        throw new StepError('stale_generation', `generation ${desired.generation} is older than ${generation}`)
      }
      if (desired.generation === generation) {
        if (known) follow(known)
        return known ? observe(known, moves) : absent(desired)
      }
      if (known === undefined && desired.want === 'absent') {
        await store.bury(desired)
        return absent(desired)
      }
      if (desired.incoming && known && takenOf(known) && takenOf(known)?.received !== desired.incoming.transferId)
        throw new StepError('invalid_snapshot', 'this host has the snapshot already')
      if (desired.want === 'present' && !isElsewhere(desired)) deps.check(desired.vmId)
      await store.saveDesired(desired)
      const entry = known ?? { desired, outcome: undefined, busy: undefined, verified: undefined }
      entry.desired = desired
      entries.set(desired.snapshotId, entry)
      follow(entry)
      return observe(entry, moves)
    },
    async get(snapshotId) {
      const entry = entries.get(snapshotId)
      return entry ? observe(entry, moves) : absent({ snapshotId, vmId: '', generation: 0 })
    },
    async source(snapshotId) {
      const entry = entries.get(snapshotId)
      const outcome = entry && takenOf(entry)
      // An arriving snapshot is usable once the control plane has confirmed it. A snapshot that is to be removed
      // remains usable
      // for a VM that was to start from it earlier.
      if (!entry || !outcome || entry.leaving || entry.desired.incoming || !isCome(entry)) {
        throw new StepError('snapshot_missing', `this host has no snapshot ${snapshotId}`)
      }
      await verify(entry, outcome.sha256)
      return { dir: store.filesDir(snapshotId), made: outcome.made }
    },
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
      for (const entry of entries.values()) if (entry.desired.want === 'absent') follow(entry)
    },
    async stop() {
      stopped = true
      moves.stop()
      await Promise.all([...entries.values()].map(entry => entry.busy))
    },
  }
}

const takenOf = ({ outcome }: Pick<Entry, 'outcome'>): Taken | undefined =>
  outcome && 'made' in outcome ? outcome : undefined

/** Transfers of snapshots from and to other hosts. */
function snapshotMoves(
  { store, kinds, makeBase, migrationHost, log }: SnapshotsDeps,
  find: (snapshotId: string) => Entry | undefined,
  publishObserved: (entry: Entry) => void,
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
        ...([desired, move] as const),
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
      if (entry) publishObserved(entry)
    },
    log,
  })
}

/** True for a snapshot that arrives from another host or was already taken, so that this host must not take it. */
const isElsewhere = ({ incoming, arrived, taken }: SnapshotPut) => Boolean(incoming ?? arrived ?? taken)

/** True if the snapshot has to be taken. A failed one is retried only for a newer generation. */
function isDue({ outcome, desired }: Entry): boolean {
  if (isElsewhere(desired)) return false
  return outcome === undefined || ('error' in outcome && outcome.generation < desired.generation)
}

async function take(deps: SnapshotsDeps, entry: Entry, publishObserved: (entry: Entry) => void): Promise<void> {
  entry.outcome = undefined
  publishObserved(entry)
  const outcome = await outcomeOf(deps, entry.desired)
  // Stored before it is reported, so that a ready snapshot stays ready after a restart.
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

function observe({ desired, outcome }: Entry, moves: Pick<Transfers<SnapshotPut>, 'observed'>): SnapshotObserved {
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

/** True if the snapshot arrived by the transfer that its desired state names, or if it names none. */
const isCome = ({ desired, outcome }: Pick<Entry, 'desired' | 'outcome'>) =>
  desired.arrived === undefined || takenOf({ outcome })?.received === desired.arrived.transferId
const notHere = 'this host does not have the snapshot, or has another one than the transfer was for'

/**
 * Removes the snapshot's copies of volumes. A failed snapshot may have copies of any volume of its VM; an unfinished
 * transfer, of any volume on this host.
 */
async function dropCopies({ dropCopy, disksOf, ...deps }: SnapshotsDeps, { desired, outcome }: Entry): Promise<void> {
  const { snapshotId, vmId } = desired
  if (outcome === undefined) return deps.dropCopies(snapshotId)
  const made = 'made' in outcome ? (outcome.made.disks ?? []) : undefined
  const volumeIds = made?.filter(disk => disk.copied).map(disk => disk.volumeId) ?? disksOf(vmId)
  for (const volumeId of volumeIds) await dropCopy(volumeId, snapshotId)
}

function absent({
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
