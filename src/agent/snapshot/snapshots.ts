import type { Logger } from 'pino'
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotMade, SnapshotSource } from '../hypervisor/driver.ts'
import { StepError } from '../vm/errors.ts'
import { createTransfers, type Transfers } from '../transfers.ts'
import { createRoom, type ReceiveDeps, receiveSnapshot, sendSnapshot } from './move.ts'
import { digestOf, type Outcome, type SnapshotStore, type Taken } from './store.ts'

export interface SnapshotsDeps extends Pick<ReceiveDeps, 'kinds' | 'makeBase' | 'migrationHost'> {
  readonly store: SnapshotStore
  /** @throws StepError `unsupported_by_hypervisor` */
  readonly check: (vmId: string) => void
  /** Fills the directory with a snapshot of the running VM. */
  readonly take: (wish: SnapshotPut, dir: string) => Promise<SnapshotMade>
  /** Volumes that the VM has, if it is here. */
  readonly disksOf: (vmId: string) => readonly string[]
  /** Removes what the snapshot has of a volume. Idempotent. */
  readonly dropCopy: (volumeId: string, snapshotId: string) => Promise<void>
  /** Removes what volumes of this host have of it, whichever they are. Idempotent. */
  readonly dropCopies: (snapshotId: string) => Promise<void>
  /** Some VM of this host was started from it and may need its files. */
  readonly inUse: (snapshotId: string) => boolean
  readonly onSeen: (seen: SnapshotObserved) => void
  readonly log: Logger
}

/** All VM snapshots of this host. */
export interface Snapshots {
  /** Reads what an earlier agent left. VMs may start from it then. */
  load(): Promise<void>
  /** Once the VMs are known: half-taken ones are taken anew, those to be removed are removed. */
  resume(): void
  /** @throws StepError `stale_generation`, `invalid_snapshot` */
  put(wish: SnapshotPut): Promise<SnapshotObserved>
  get(snapshotId: string): Promise<SnapshotObserved>
  /** @throws StepError `snapshot_missing`, `snapshot_damaged` */
  source(snapshotId: string): Promise<Omit<SnapshotSource, 'renew'>>
  /** It is here, or is being taken. */
  has(snapshotId: string): boolean
  /** It was here and is not to be here any more. */
  isGone(snapshotId: string): Promise<boolean>
  /** A VM has gone: what only it needed can go too. */
  poke(): void
  /** Resolves when nothing is being done any more. */
  stop(): Promise<void>
}

interface Entry {
  wish: SnapshotPut
  outcome: Outcome | undefined
  busy: Promise<void> | undefined
  /** Its content was found equal to its hash by this agent. */
  verified: Promise<void> | undefined
  /** Its files are going. */
  leaving?: boolean
}

export function createSnapshots(deps: SnapshotsDeps): Snapshots {
  const { store, log } = deps
  const entries = new Map<string, Entry>()
  let stopped = false

  const seen = (entry: Entry) => deps.onSeen(observe(entry, moves))
  const moves = snapshotMoves(deps, id => entries.get(id), seen)

  /** One at a time for each snapshot, until the wish is true or has to wait. */
  const follow = (entry: Entry): void => {
    if (stopped) return
    moves.follow(entry.wish, takenOf(entry)?.received)
    if (entry.busy) return
    const work = async () => {
      if (entry.wish.want === 'present' && isDue(entry)) await take(deps, entry, seen)
      else if (entry.wish.want === 'absent' && !deps.inUse(entry.wish.snapshotId)) {
        entry.leaving = true
        await moves.ended(entry.wish.snapshotId)
        await dropCopies(deps, entry)
        await store.bury(entry.wish)
        entries.delete(entry.wish.snapshotId)
        deps.onSeen(absent(entry.wish))
        return
      }
      seen(entry)
    }
    const failed = (err: unknown) => log.error({ snapshotId: entry.wish.snapshotId, err }, 'cannot follow the snapshot')
    const { wish } = entry
    entry.busy = work()
      .catch(failed)
      .then(() => {
        entry.busy = undefined
        if (entry.wish !== wish && entries.has(wish.snapshotId)) follow(entry)
      })
  }

  const verify = (entry: Entry, sha256: string): Promise<void> => {
    entry.verified ??= digestOf(store.filesDir(entry.wish.snapshotId)).then(found => {
      if (found.sha256 === sha256) return
      throw new StepError('snapshot_damaged', 'the snapshot is not what it was when it was taken')
    })
    return entry.verified
  }

  return {
    async load() {
      for (const stored of await store.load()) {
        entries.set(stored.wish.snapshotId, { ...stored, busy: undefined, verified: undefined })
      }
    },
    resume() {
      for (const entry of entries.values()) follow(entry)
    },
    async put(wish) {
      if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(wish.snapshotId)) {
        throw new StepError('invalid_snapshot', 'a snapshot id has letters, digits, - and _ only')
      }
      const known = entries.get(wish.snapshotId)
      const generation = known?.wish.generation ?? (await store.buriedGeneration(wish.snapshotId))
      if (wish.generation < generation) {
        throw new StepError('stale_generation', `generation ${wish.generation} is older than ${generation}`)
      }
      if (wish.generation === generation) {
        if (known) follow(known)
        return known ? observe(known, moves) : absent(wish)
      }
      if (known === undefined && wish.want === 'absent') {
        await store.bury(wish)
        return absent(wish)
      }
      if (wish.incoming && known && takenOf(known) && takenOf(known)?.received !== wish.incoming.transferId)
        throw new StepError('invalid_snapshot', 'this host has the snapshot already')
      if (wish.want === 'present' && !isElsewhere(wish)) deps.check(wish.vmId)
      await store.saveWish(wish)
      const entry = known ?? { wish, outcome: undefined, busy: undefined, verified: undefined }
      entry.wish = wish
      entries.set(wish.snapshotId, entry)
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
      // What comes counts when control says so. One that is not wanted any more stays for a VM that was to start from it before.
      if (!entry || !outcome || entry.leaving || entry.wish.incoming || !isCome(entry)) {
        throw new StepError('snapshot_missing', `this host has no snapshot ${snapshotId}`)
      }
      await verify(entry, outcome.sha256)
      return { dir: store.filesDir(snapshotId), made: outcome.made }
    },
    has(snapshotId) {
      const entry = entries.get(snapshotId)
      const failed = entry?.outcome !== undefined && 'error' in entry.outcome
      return entry?.wish.want === 'present' && !failed
    },
    async isGone(snapshotId) {
      const entry = entries.get(snapshotId)
      return entry ? entry.wish.want === 'absent' : (await store.buriedGeneration(snapshotId)) > 0
    },
    poke() {
      for (const entry of entries.values()) if (entry.wish.want === 'absent') follow(entry)
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

/** How those that leave or come get at the snapshots of this host. */
function snapshotMoves(
  { store, kinds, makeBase, migrationHost, log }: SnapshotsDeps,
  find: (snapshotId: string) => Entry | undefined,
  seen: (entry: Entry) => void,
): Transfers<SnapshotPut> {
  const room = createRoom()
  const keep = async (snapshotId: string, taken: Taken) => {
    const entry = find(snapshotId)
    if (!entry || entry.wish.incoming?.transferId !== taken.received)
      throw new Error('nobody wants the snapshot here any more')
    await store.saveOutcome(snapshotId, taken)
    entry.outcome = taken
    entry.verified = Promise.resolve()
  }
  return createTransfers<SnapshotPut>({
    idOf: ({ snapshotId }) => snapshotId,
    async receive(wish, received, move) {
      if (received !== undefined && received === wish.incoming?.transferId)
        return move.tell({ phase: 'complete', percent: 100 })
      await receiveSnapshot(
        { store, kinds, room, makeBase, migrationHost, keep: taken => keep(wish.snapshotId, taken) },
        ...([wish, move] as const),
      )
    },
    async send(wish, move) {
      const entry = find(wish.snapshotId)
      const taken = entry && takenOf(entry)
      if (!taken) throw new StepError('snapshot_missing', 'this host does not have it')
      await sendSnapshot(store.filesDir(wish.snapshotId), taken, wish, move)
    },
    onChange(snapshotId) {
      const entry = find(snapshotId)
      if (entry) seen(entry)
    },
    log,
  })
}

/** What comes from another host, or was there before. */
const isElsewhere = ({ incoming, arrived, taken }: SnapshotPut) => Boolean(incoming ?? arrived ?? taken)

/** A failure stands until there is a newer wish. */
function isDue({ outcome, wish }: Entry): boolean {
  if (isElsewhere(wish)) return false
  return outcome === undefined || ('error' in outcome && outcome.generation < wish.generation)
}

async function take(deps: SnapshotsDeps, entry: Entry, seen: (entry: Entry) => void): Promise<void> {
  entry.outcome = undefined
  seen(entry)
  const outcome = await outcomeOf(deps, entry.wish)
  // Stored before it is told: what was ready once stays ready.
  await deps.store.saveOutcome(entry.wish.snapshotId, outcome)
  entry.outcome = outcome
  entry.verified = 'error' in outcome ? undefined : Promise.resolve()
}

async function outcomeOf({ store, log, ...deps }: SnapshotsDeps, wish: SnapshotPut): Promise<Outcome> {
  const { snapshotId, generation } = wish
  try {
    const made = await store.make(snapshotId, dir => deps.take(wish, dir))
    return { made, ...(await digestOf(store.filesDir(snapshotId))) }
  } catch (error) {
    log.warn({ snapshotId, err: error }, 'cannot take the snapshot')
    return { error: StepError.of(error).message, generation }
  }
}

function observe({ wish, outcome }: Entry, moves: Pick<Transfers<SnapshotPut>, 'observed'>): SnapshotObserved {
  const { snapshotId, vmId, generation } = wish
  const transfer = moves.observed(snapshotId)
  const none = { sizeBytes: 0, sha256: null, madeBy: null, pauseMs: null, error: null }
  const base = { snapshotId, vmId, generation, ...none, ...(transfer ? { transfer } : {}) }
  if (wish.want === 'absent') return { ...base, state: 'removing' }
  if (wish.incoming) return { ...base, state: 'creating' }
  if (!isCome({ wish, outcome })) return { ...base, state: 'failed', error: notHere }
  if (outcome === undefined)
    return wish.taken ? { ...base, state: 'failed', error: notHere } : { ...base, state: 'creating' }
  if ('error' in outcome) return { ...base, state: 'failed', error: outcome.error }
  const { sha256, sizeBytes, made } = outcome
  const disks = made.disks ? { disks: [...made.disks] } : {}
  return { ...base, state: 'ready', sha256, sizeBytes, madeBy: made.madeBy, pauseMs: made.pauseMs, ...disks }
}

/** By the transfer that its wish names, if it names one. */
const isCome = ({ wish, outcome }: Pick<Entry, 'wish' | 'outcome'>) =>
  wish.arrived === undefined || takenOf({ outcome })?.received === wish.arrived.transferId
const notHere = 'the snapshot is not here, or not what another host sent'

/** Of one that failed, or was never finished, some may be there; what has come of one from another host is with any volume. */
async function dropCopies({ dropCopy, disksOf, ...deps }: SnapshotsDeps, { wish, outcome }: Entry): Promise<void> {
  const { snapshotId, vmId } = wish
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
