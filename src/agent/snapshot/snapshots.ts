import type { Logger } from 'pino'
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import type { SnapshotMade, SnapshotSource } from '../hypervisor/driver.ts'
import { StepError } from '../vm/errors.ts'
import { digestOf, type Outcome, type SnapshotStore } from './store.ts'

export interface SnapshotsDeps {
  readonly store: SnapshotStore
  /** @throws StepError `unsupported_by_hypervisor` */
  readonly check: (vmId: string) => void
  /** Fills the directory with a snapshot of the running VM. */
  readonly take: (wish: SnapshotPut, dir: string) => Promise<SnapshotMade>
  /** Volumes that the VM has, if it is here. */
  readonly disksOf: (vmId: string) => readonly string[]
  /** Removes what the snapshot has of a volume. Idempotent. */
  readonly dropCopy: (volumeId: string, snapshotId: string) => Promise<void>
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
}

export function createSnapshots(deps: SnapshotsDeps): Snapshots {
  const { store, log } = deps
  const entries = new Map<string, Entry>()
  let stopped = false

  const seen = (entry: Entry) => deps.onSeen(observe(entry))

  /** One at a time for each snapshot, until the wish is true or has to wait. */
  const follow = (entry: Entry): void => {
    if (entry.busy || stopped) return
    const work = async () => {
      if (entry.wish.want === 'present' && isDue(entry)) await take(deps, entry)
      else if (entry.wish.want === 'absent' && !deps.inUse(entry.wish.snapshotId)) {
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
      if (wish.generation === generation) return known ? observe(known) : absent(wish)
      if (known === undefined && wish.want === 'absent') {
        await store.bury(wish)
        return absent(wish)
      }
      if (wish.want === 'present') deps.check(wish.vmId)
      await store.saveWish(wish)
      const entry = known ?? { wish, outcome: undefined, busy: undefined, verified: undefined }
      entry.wish = wish
      entries.set(wish.snapshotId, entry)
      follow(entry)
      return observe(entry)
    },
    async get(snapshotId) {
      const entry = entries.get(snapshotId)
      return entry ? observe(entry) : absent({ snapshotId, vmId: '', generation: 0 })
    },
    async source(snapshotId) {
      const entry = entries.get(snapshotId)
      const outcome = entry?.outcome
      if (!entry || !outcome || 'error' in outcome || entry.wish.want === 'absent') {
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
    poke() {
      for (const entry of entries.values()) if (entry.wish.want === 'absent') follow(entry)
    },
    async stop() {
      stopped = true
      await Promise.all([...entries.values()].map(entry => entry.busy))
    },
  }
}

/** A failure stands until there is a newer wish. */
function isDue({ outcome, wish }: Entry): boolean {
  return outcome === undefined || ('error' in outcome && outcome.generation < wish.generation)
}

async function take(deps: SnapshotsDeps, entry: Entry): Promise<void> {
  entry.outcome = undefined
  deps.onSeen(observe(entry))
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

function observe({ wish, outcome }: Entry): SnapshotObserved {
  const { snapshotId, vmId, generation } = wish
  const base = { snapshotId, vmId, generation, sizeBytes: 0, sha256: null, madeBy: null, pauseMs: null, error: null }
  if (wish.want === 'absent') return { ...base, state: 'removing' }
  if (outcome === undefined) return { ...base, state: 'creating' }
  if ('error' in outcome) return { ...base, state: 'failed', error: outcome.error }
  const { sha256, sizeBytes, made } = outcome
  const disks = made.disks ? { disks: [...made.disks] } : {}
  return { ...base, state: 'ready', sha256, sizeBytes, madeBy: made.madeBy, pauseMs: made.pauseMs, ...disks }
}

/** Of one that failed, or was never finished, some may be there. */
async function dropCopies({ dropCopy, disksOf }: SnapshotsDeps, { wish, outcome }: Entry): Promise<void> {
  const made = outcome && 'made' in outcome ? (outcome.made.disks ?? []) : undefined
  const volumeIds = made?.filter(disk => disk.copied).map(disk => disk.volumeId) ?? disksOf(wish.vmId)
  for (const volumeId of volumeIds) await dropCopy(volumeId, wish.snapshotId)
}

function absent({
  snapshotId,
  vmId,
  generation,
}: Pick<SnapshotPut, 'snapshotId' | 'vmId' | 'generation'>): SnapshotObserved {
  return {
    ...{ snapshotId, vmId, generation, state: 'absent', sizeBytes: 0, sha256: null },
    ...{ madeBy: null, pauseMs: null, error: null },
  }
}
