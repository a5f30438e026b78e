/**
 * The volumes of this host: creates, attaches, grows, restores, transfers and removes them as the control plane
 * requests.
 */
import type { DiskSpec, VolumeObserved, VolumePut } from '../../contract/agent.ts'
import { isVmId } from '../base/vm-id.ts'
import { StepError } from '../base/step-error.ts'
import { type VolumeCopies, volumeCopies } from './copies.ts'
import { absent, observe } from './decide.ts'
import { poolOf, type VolumesDeps } from './deps.ts'
import { moveHooks } from './move/hooks.ts'
import type { VolumesWithVms } from './move/with-vm.ts'
import { type Opened, type Opener, volumeOpener } from './open.ts'
import { type Entry, finish, follow, report, type VolumeTable } from './reconcile.ts'
import { nothingDone, type StoredVolume } from './store.ts'

/** All volumes of this host. Each volume is reconciled with its desired state, and VMs open and close it. */
export interface Volumes extends VolumeCopies, VolumesWithVms {
  /** Loads the stored records after a restart. After that, VMs may open volumes. */
  load(stored: readonly StoredVolume[]): void
  /**
   * Continues unfinished work, once it is known which VMs have which volumes open. Volumes in a shared pool wait for
   * the next `put`: the control plane may have requested the work from another host instead.
   */
  resume(): void
  /** Sets the desired state of a volume. @throws StepError `stale_generation`, `invalid_volume`, `no_such_pool` */
  put(desired: VolumePut): Promise<VolumeObserved>
  get(volumeId: string): Promise<VolumeObserved>
  /**
   * Opens the volume for an attachment with the generation of `disk`. Returns the volume's file or device.
   * @throws StepError `stale_volume_generation` if this host has recorded a newer attachment, `volume_missing`,
   * `volume_not_ready`, `volume_in_use`, `volume_locked` if the agent has not received the volume's key
   */
  open(disk: DiskSpec, vmId: string): Promise<Opened>
  /** Keeps a volume's key in memory while the agent runs. Keys are never written to disk. */
  learn(volumeId: string, key: string): void
  /** Closes the volume after the VM has detached it. Idempotent. */
  close(volumeId: string, vmId: string): Promise<void>
  /** Records that a VM had the volume open before the agent's restart and still uses it. */
  adopt(disk: DiskSpec, vmId: string): void
  /** Returns the desired states of all volumes that have been created. */
  ready(): readonly VolumePut[]
  stop(): void
}

export function createVolumes(deps: VolumesDeps): Volumes {
  const { holders, mutex } = deps
  const { table, withVms } = openTable(deps)
  const { entries, keys, moves } = table
  const opener = openerOf(table)
  return {
    load(stored) {
      for (const one of stored) entries.set(one.desired.volumeId, { ...one, source: 'stored', busy: false })
    },
    resume() {
      for (const entry of entries.values()) follow(table, entry)
    },
    put: desired => put(table, desired),
    get: async volumeId => {
      const entry = entries.get(volumeId)
      return entry ? observe(entry, moves.observed(volumeId)) : absent(volumeId, 0)
    },
    learn: (volumeId, key) => void keys.set(volumeId, key),
    open: (disk, vmId) => mutex.take(disk.volumeId, () => opener.open(disk, vmId)),
    close: (volumeId, vmId) => mutex.take(volumeId, () => close(table, opener, volumeId, vmId)),
    ...withVms,
    ...volumeCopies({
      mutex,
      holders,
      open: opener.open,
      find: volumeId => {
        const desired = entries.get(volumeId)?.desired
        return desired && { desired, pool: poolOf(deps.pools, desired.pool) }
      },
      all: () => copiedVolumes(table),
    }),
    adopt: opener.adopt,
    ready: () =>
      [...entries.values()]
        .filter(({ desired, done }) => desired.want === 'present' && done.created)
        .map(({ desired }) => desired),
    stop() {
      table.stopped = true
      moves.stop()
    },
  }
}

/** Creates the table of volumes, initially empty, and the transfers of volumes between hosts. */
function openTable(deps: VolumesDeps): { readonly table: VolumeTable; readonly withVms: VolumesWithVms } {
  const entries = new Map<string, Entry>()
  const keys = new Map<string, string>()
  const { moves, withVms } = moveHooks<Entry>({
    mutex: deps.mutex,
    holders: deps.holders,
    log: deps.log,
    migrationHost: deps.migrationHost,
    isGone: deps.isGone,
    poolOf: name => poolOf(deps.pools, name),
    find: volumeId => entries.get(volumeId),
    finish: (entry, done) => finish(deps, entry, done),
    report: entry => report(table, entry),
    fence: disk => fence(deps, disk),
    keyOf: volumeId => keys.get(volumeId),
  })
  const table: VolumeTable = { deps, entries, keys, moves, stopped: false }
  return { table, withVms }
}

const openerOf = ({ deps, entries, keys }: VolumeTable): Opener =>
  volumeOpener({
    pools: deps.pools,
    holders: deps.holders,
    checkFence: disk => checkFence(deps, disk),
    fence: disk => fence(deps, disk),
    keyOf: volumeId => keys.get(volumeId),
    find: volumeId => entries.get(volumeId),
  })

async function put(table: VolumeTable, { key, ...desired }: VolumePut): Promise<VolumeObserved> {
  const { deps, entries, keys, moves } = table
  if (!isVmId(desired.volumeId))
    throw new StepError(
      'invalid_volume',
      `invalid volume id "${desired.volumeId}": only letters, digits, - and _ are allowed`,
    )
  if (key) keys.set(desired.volumeId, key)
  const known = entries.get(desired.volumeId)
  const generation = known?.desired.generation ?? (await deps.store.buriedGeneration('volume', desired.volumeId))
  if (desired.generation < generation)
    throw new StepError('stale_generation', `generation ${desired.generation} is older than ${generation}`)
  if (desired.generation === generation) {
    if (!known) return absent(desired.volumeId, generation)
    if (known.source === 'stored') Object.assign(known, { source: 'reported', desired })
    follow(table, known)
    return observe(known, moves.observed(desired.volumeId))
  }
  // This host may have no record of a volume in a shared pool that another host created, so only a volume of another
  // pool is reported as absent.
  if (!known && desired.want === 'absent' && !deps.pools.get(desired.pool)?.shared) {
    await deps.store.bury('volume', desired.volumeId, desired.generation)
    return absent(desired.volumeId, desired.generation)
  }
  if (desired.want === 'present') poolOf(deps.pools, desired.pool)
  if (desired.incoming && known?.done.created) throw new StepError('invalid_volume', 'this host has the volume already')
  await deps.store.saveDesired(desired)
  const entry: Entry = known ?? { source: 'reported', desired, done: nothingDone, busy: false }
  entry.source = 'reported'
  entry.desired = desired
  entries.set(desired.volumeId, entry)
  follow(table, entry)
  return observe(entry, moves.observed(desired.volumeId))
}

/** Closes the volume for one VM. The caller holds the volume's mutex. */
async function close(table: VolumeTable, opener: Opener, volumeId: string, vmId: string): Promise<void> {
  if (!table.deps.holders.of(volumeId).includes(vmId)) return
  await opener.close(volumeId, vmId)
  const entry = table.entries.get(volumeId)
  if (entry) follow(table, entry)
}

/** Returns the ids of volumes that may have copies for VM snapshots: those in pools that only this host uses. */
const copiedVolumes = ({ deps, entries }: VolumeTable): string[] =>
  [...entries.values()]
    .filter(({ desired }) => deps.pools.get(desired.pool)?.shared === false)
    .map(one => one.desired.volumeId)

/**
 * Returns the generation of the newest recorded attachment.
 * @throws StepError `stale_volume_generation` if the generation of `disk` is older
 */
async function checkFence({ store }: VolumesDeps, { volumeId, generation }: DiskSpec): Promise<number> {
  const observed = await store.attachGeneration(volumeId)
  if (generation >= observed) return observed
  const message = `volume ${volumeId} was attached under generation ${observed}, ${generation} is older`
  throw new StepError('stale_volume_generation', message)
}

/** Records the attachment as the newest one of its volume. @throws StepError `stale_volume_generation` */
async function fence(deps: VolumesDeps, disk: DiskSpec): Promise<void> {
  const { volumeId, generation } = disk
  if (generation > (await checkFence(deps, disk))) await deps.store.saveAttachGeneration(volumeId, generation)
}
