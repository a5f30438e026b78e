/** The workflow of a volume: chooses a host for it, and has the host create, restore, grow and finally remove it. */
import { randomBytes } from 'node:crypto'
import { BusError } from '../../bus/bus.ts'
import type { VolumeObserved, VolumePut } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient, listHosts, listPools } from '../hosts/index.ts'
import { pokeMoveOf } from '../moves/index.ts'
import { makingMs } from './create.ts'
import { choosePlace } from './rules.ts'
import * as store from './store.ts'
import type { Volume } from './store.ts'

/**
 * Interval at which the workflow queries the host. Hosts report changes by themselves, so polling is only for lost
 * messages.
 */
const pollMs = seconds(15)
const tryAgainMs = seconds(30)

type PlaceDeps = Pick<Deps, 'db' | 'config'>
type VolumeDeps = PlaceDeps & Pick<Deps, 'bus' | 'vault'>

/** Returns the desired state of the volume for its host. */
const desiredOf = ({ vault }: VolumeDeps, v: Volume): VolumePut => ({
  volumeId: v.id,
  generation: v.generation,
  want: v.want,
  pool: v.poolName,
  sizeMib: v.sizeMib,
  ...(v.fromVolumeId && v.fromSnapshotId ? { from: { volumeId: v.fromVolumeId, snapshotId: v.fromSnapshotId } } : {}),
  ...(v.image === '' ? {} : { image: v.image }),
  ...(v.key ? { key: vault.open('volume.key', v.key) } : {}),
  ...(v.arrivedBy ? { arrived: { transferId: v.arrivedBy } } : {}),
  // Send the restore only while it is in progress: another host of a shared pool has no record of a completed restore
  // and would repeat it.
  ...(v.state === 'restoring' && v.restoreSnapshotId
    ? { restore: { snapshotId: v.restoreSnapshotId, count: v.restores } }
    : {}),
})

export const volumeWorkflow = (deps: VolumeDeps) =>
  workflow<Volume>()({
    kind: 'volume',
    edges: {
      placing: ['creating', 'removing'],
      creating: ['keeping', 'removing'],
      keeping: ['creating', 'restoring', 'growing', 'removing'],
      restoring: ['keeping', 'removing'],
      growing: ['keeping', 'removing'],
      removing: [],
    },
    load: id => store.byId(deps.db, id),
    preempt: v => (v.want === 'absent' ? 'removing' : undefined),
    phases: {
      /**
       * Waits for a host: the volume gets one together with the first VM that needs it. If a snapshot needs the volume
       * before that, this phase chooses the host with the most free space.
       */
      async placing({ subject: v }) {
        if (v.hostId) return go('creating', undefined, makingMs)
        if (!v.needed) return wait(hours(1))
        const place = await findPlace(deps, v)
        if (!place) return wait(seconds(30))
        return go('creating', tx => moveTo(tx, v, place), makingMs)
      },

      async creating(step): Promise<Next<'keeping'>> {
        const { subject: v } = step
        if (v.state !== 'creating') return go('keeping')
        const pauseMs = untilTriedAgain(step)
        if (pauseMs > 0) return wait(pauseMs)
        if (!v.key && (await isEncrypted(deps, v))) return wait(0, tx => giveKey(deps, tx, v))
        return carryOut(deps, step, {
          settled: observed => {
            if (observed.state === 'ready') return go('keeping', tx => settle(tx, v, 'ready', null))
            return observed.state === 'failed' ? notMade(v, observed.error) : undefined
          },
          refused: why => notMade(v, why),
        })
      },

      async keeping({ subject: v }): Promise<Next<'creating' | 'restoring' | 'growing'>> {
        // The volume has moved to its current host, which still has to create it from the copied data.
        if (v.state === 'creating') return go('creating', undefined, makingMs)
        if (v.state === 'restoring') return go('restoring', undefined, makingMs)
        return isGrowing(v) ? go('growing', undefined, makingMs) : wait(hours(1))
      },

      async restoring(step): Promise<Next<'keeping'>> {
        const { subject: v } = step
        if (v.state !== 'restoring') return go('keeping')
        return carryOut(deps, step, {
          settled: observed => {
            if (observed.restored >= v.restores) return go('keeping', tx => settle(tx, v, 'ready', null))
            // A failed restore leaves the content unchanged.
            if (observed.state === 'failed')
              return go('keeping', tx => settle(tx, v, 'ready', `restore failed: ${observed.error ?? 'no reason'}`))
            return undefined
          },
          refused: why => go('keeping', tx => settle(tx, v, 'ready', why)),
        })
      },

      /**
       * Waits until the host has grown the volume, which stays usable. If the host cannot grow it, the size is reset.
       */
      async growing(step): Promise<Next<'keeping'>> {
        const { subject: v } = step
        if (v.state !== 'ready' || !isGrowing(v)) return go('keeping')
        return carryOut(deps, step, {
          settled: observed => {
            if ((observed.sizeMib ?? 0) >= v.sizeMib) return go('keeping', tx => grown(tx, v))
            if (observed.state === 'failed') return go('keeping', tx => staySmall(tx, v, observed.error ?? 'no reason'))
            return undefined
          },
          refused: why => go('keeping', tx => staySmall(tx, v, why)),
        })
      },

      async removing({ subject: v, signal }) {
        // Wait until a move of the volume is cancelled, and both hosts have removed their copies.
        if (v.copied) return wait(minutes(1))
        if (v.hostId && !(v.bound && v.hostRemoved)) {
          const hostId = await reachableHost(deps, v)
          // No host that can access the volume is up. Retry later, because a lost host may come back.
          if (hostId === undefined) return wait(minutes(10))
          const observed = await agentClient(deps.bus, hostId).putVolume(desiredOf(deps, v), signal)
          if (observed.state !== 'absent') return wait(pollMs)
        }
        return done(async tx => {
          await store.remove(tx, v.id)
          await poke(tx, 'project', v.projectId)
          await pokeOwner(tx, v)
        })
      },
    },
  })

interface Step {
  readonly subject: Volume
  readonly signal: AbortSignal
  readonly now: Date
}

interface Ends {
  /** Maps the host's observation to the next step; undefined while the host is still working. */
  readonly settled: (observed: VolumeObserved) => Next<'keeping'> | undefined
  /** Returns the next step after the host has refused the desired state for a reason that a retry would not change. */
  readonly refused: (why: string) => Next<'keeping'>
}

/**
 * Returns the next step after the host could not create the volume. The volume then has the state `failed`, unless it
 * was moved to this host: then the host has the only complete copy, and the workflow retries the creation until it
 * succeeds.
 */
const notMade = (v: Volume, why: string | null): Next<'keeping'> =>
  v.arrivedBy === null
    ? go('keeping', tx => settle(tx, v, 'failed', why))
    : wait(tryAgainMs, tx => store.tryAgain(tx, v, why ?? 'no reason'))

/**
 * Returns the time until the next attempt to create a volume after a move. Without this delay, the workflow would
 * retry at once, because the host's report of the failure pokes it.
 */
const untilTriedAgain = ({ subject: v, now }: Pick<Step, 'subject' | 'now'>): number =>
  v.arrivedBy !== null && v.error !== null ? v.updatedAt.getTime() + tryAgainMs - now.getTime() : 0

/** Sends the desired state to the host, and maps its response to the next step. */
async function carryOut(
  deps: VolumeDeps,
  { subject: v, signal }: Step,
  { settled, refused }: Ends,
): Promise<Next<'keeping'>> {
  const hostId = await reachableHost(deps, v)
  if (hostId === undefined) return wait(seconds(30))
  try {
    const observed = await agentClient(deps.bus, hostId).putVolume(desiredOf(deps, v), signal)
    return (observed.generation >= v.generation ? settled(observed) : undefined) ?? wait(pollMs)
  } catch (cause) {
    const refusal = refusalOf(cause)
    if (refusal === undefined) throw cause
    return refused(refusal)
  }
}

const isEncrypted = async ({ db }: VolumeDeps, v: Volume) =>
  (await listPools(db)).some(pool => pool.hostId === v.hostId && pool.name === v.poolName && pool.encrypted)

async function giveKey({ vault }: VolumeDeps, tx: Tx, v: Volume): Promise<void> {
  await store.setKey(tx, v.id, vault.seal('volume.key', randomBytes(32).toString('base64')))
}

/**
 * Returns the error message if the host has refused the request for a reason that a retry would not change; else
 * undefined.
 */
function refusalOf(cause: unknown): string | undefined {
  const final = ['no_such_pool', 'invalid_volume', 'snapshot_missing']
  return cause instanceof BusError && final.includes(cause.remoteCode ?? '') ? cause.message : undefined
}

/**
 * Returns the volume's host. If this host is lost and the volume's pool is shared, returns another host of the pool;
 * undefined if none is up.
 */
export async function reachableHost(deps: PlaceDeps, v: Volume): Promise<string | undefined> {
  if (v.hostId && !v.hostLost) return v.hostId
  if (v.bound) return undefined
  // A host needs no additional space for the volume, because the volume already counts in the pool's usage.
  const place = await findPlace(deps, v)
  if (place) await deps.db.tx(tx => moveTo(tx, v, place))
  return place?.hostId
}

async function findPlace(deps: PlaceDeps, v: Volume) {
  const hosts = await listHosts(deps.db, deps.config.hostTimeoutSeconds)
  return choosePlace(await listPools(deps.db), hosts, { ...v, volumeId: v.id })
}

async function moveTo(
  tx: Tx,
  v: Volume,
  { hostId, name, shared }: { readonly hostId: string; readonly name: string; readonly shared: boolean },
): Promise<void> {
  await store.place(tx, v.id, { hostId, bound: !shared, pool: name })
}

/** Records the result of creating or restoring the volume, and pokes the workflows that wait for it. */
async function settle(tx: Tx, v: Volume, state: 'ready' | 'failed', error: string | null): Promise<void> {
  if (!(await store.enter(tx, v.id, v.state, state, error))) return
  await pokeMany(tx, 'vm', await store.vmIds(tx, v.id))
  await pokeMany(tx, 'volume-snapshot', await store.snapshotsUnderWay(tx, v.id))
  // Once the volume is usable on the target host of a move, the source host may remove its copy.
  await pokeMoveOf(tx, v.id)
  await pokeOwner(tx, v)
}

const isGrowing = (v: Pick<Volume, 'grownMib' | 'sizeMib'>) => v.grownMib < v.sizeMib

async function grown(tx: Tx, v: Volume): Promise<void> {
  await store.hasGrown(tx, v.id, v.sizeMib)
  await pokeOwner(tx, v)
}

async function staySmall(tx: Tx, v: Volume, why: string): Promise<void> {
  await store.giveUpGrowing(tx, v, `not grown to ${v.sizeMib} MiB: ${why}`)
  await pokeOwner(tx, v)
}

export async function pokeOwner(tx: Tx, v: Pick<Volume, 'owner' | 'ownerId'>): Promise<void> {
  if (v.owner !== 'user' && v.ownerId) await poke(tx, v.owner, v.ownerId)
}

/** Pokes the workflows of the volume and of its move after a host has reported an observation of the volume. */
export async function recordVolume(tx: Tx, { volumeId }: Pick<VolumeObserved, 'volumeId'>): Promise<void> {
  await poke(tx, 'volume', volumeId)
  await pokeMoveOf(tx, volumeId)
}
