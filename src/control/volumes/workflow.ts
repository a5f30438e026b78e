/** The workflow of a volume: places it, has its host create it, restore it and grow it on request, and removes it. */
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

/** Changes arrive as messages; this poll covers lost messages. */
const pollMs = seconds(15)
const tryAgainMs = seconds(30)

type PlaceDeps = Pick<Deps, 'db' | 'config'>
type VolumeDeps = PlaceDeps & Pick<Deps, 'bus' | 'vault'>

/** The desired state as sent to the host. */
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
  // A completed restore is not sent again: another host of a shared pool has no record of it and would repeat it.
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
      /** A volume is placed with the first VM that needs it; without a VM, on the host with most room. */
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
        // The volume has moved to another host.
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

      /** The volume stays in use while it grows; if the host cannot grow it, the size stays unchanged. */
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
        // The move is cancelled first, and the hosts with copies remove them.
        if (v.copied) return wait(minutes(1))
        if (v.hostId && !(v.bound && v.hostRemoved)) {
          const hostId = await reachableHost(deps, v)
          // Only a host that reaches the volume can remove it, and a lost host may come back.
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
  /** Maps the host's answer to the next step; undefined while the host is working. */
  readonly settled: (observed: VolumeObserved) => Next<'keeping'> | undefined
  /** The host refuses this generation for good. */
  readonly refused: (why: string) => Next<'keeping'>
}

/**
 * A failed creation is final, except for a volume that was moved here: this host has its only complete copy, so
 * creation is retried forever.
 */
const notMade = (v: Volume, why: string | null): Next<'keeping'> =>
  v.arrivedBy === null
    ? go('keeping', tx => settle(tx, v, 'failed', why))
    : wait(tryAgainMs, tx => store.tryAgain(tx, v, why ?? 'no reason'))

/**
 * Time until the next attempt. The observation of a failed attempt pokes this workflow, and must not trigger an
 * immediate retry.
 */
const untilTriedAgain = ({ subject: v, now }: Pick<Step, 'subject' | 'now'>): number =>
  v.arrivedBy !== null && v.error !== null ? v.updatedAt.getTime() + tryAgainMs - now.getTime() : 0

/** Sends the desired state to the host. */
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

/** Returns the host's message when it is a refusal that a retry would not change. */
function refusalOf(cause: unknown): string | undefined {
  const final = ['no_such_pool', 'invalid_volume', 'snapshot_missing']
  return cause instanceof BusError && final.includes(cause.remoteCode ?? '') ? cause.message : undefined
}

/**
 * Returns the volume's host; for a shared pool, another host when that one is lost. Undefined when no host can be
 * reached now.
 */
export async function reachableHost(deps: PlaceDeps, v: Volume): Promise<string | undefined> {
  if (v.hostId && !v.hostLost) return v.hostId
  if (v.bound) return undefined
  // The pool has already reserved the volume's space.
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

/** Ends a creation or restore, successful or not, and pokes the workflows that wait for it. */
async function settle(tx: Tx, v: Volume, state: 'ready' | 'failed', error: string | null): Promise<void> {
  if (!(await store.enter(tx, v.id, v.state, state, error))) return
  await pokeMany(tx, 'vm', await store.vmIds(tx, v.id))
  await pokeMany(tx, 'volume-snapshot', await store.snapshotsUnderWay(tx, v.id))
  // The source host of a move may now remove its leftovers.
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

/** Pokes the workflows of the volume after an observation of its host. */
export async function recordVolume(tx: Tx, { volumeId }: Pick<VolumeObserved, 'volumeId'>): Promise<void> {
  await poke(tx, 'volume', volumeId)
  await pokeMoveOf(tx, volumeId)
}
