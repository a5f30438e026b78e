/**
 * The workflow of a volume snapshot: has the volume's host create it once, retains it until it is deleted, and then
 * has the host remove it.
 */
import { BusError } from '../../bus/bus.ts'
import type { VolumeSnapshotObserved, VolumeSnapshotPut } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { giveUpRestore, pokeVm } from '../vms/index.ts'
import { makingMs } from './create.ts'
import { pokeOwner, reachableHost } from './workflow.ts'
import type { VolumeSnapshot } from './snapshot-store.ts'
import * as store from './snapshot-store.ts'
import { byId as volumeById } from './store.ts'

/**
 * Interval at which the workflow queries the host. Hosts report changes by themselves, so polling is only for lost
 * messages.
 */
const pollMs = seconds(15)

/** Returns the desired state of the snapshot for its host. The removal has a later generation than the creation. */
const desiredOf = (s: VolumeSnapshot): VolumeSnapshotPut => ({
  snapshotId: s.id,
  volumeId: s.volumeId,
  pool: s.poolName,
  generation: s.want === 'present' ? 1 : 2,
  want: s.want,
})

export const volumeSnapshotWorkflow = (deps: Pick<Deps, 'db' | 'bus' | 'config'>) =>
  workflow<VolumeSnapshot>()({
    kind: 'volume-snapshot',
    edges: { creating: ['keeping', 'removing'], keeping: ['removing'], removing: [] },
    load: id => store.byId(deps.db, id),
    preempt: s => (s.want === 'absent' ? 'removing' : undefined),
    phases: {
      async creating({ subject: s, enteredAt, now, signal }): Promise<Next<'keeping'>> {
        if (s.state !== 'creating') return go('keeping')
        if (s.volumeState === 'failed') return go('keeping', failed(s, 'the volume itself could not be created'))
        if (now.getTime() - enteredAt.getTime() > makingMs)
          return go('keeping', failed(s, 'the host did not finish the snapshot in time'))
        // Wait until the volume has a host and is ready. Its workflow then pokes this one.
        if (!s.hostId || s.volumeState !== 'ready' || s.moving) return wait(pollMs)
        if (s.hostLost) return go('keeping', failed(s, 'the host of the volume is lost'))
        const { hostId } = s
        try {
          const observed = await agentClient(deps.bus, hostId).putVolumeSnapshot(desiredOf(s), signal)
          return wait(pollMs, tx => recordVolumeSnapshot(tx, hostId, observed))
        } catch (cause) {
          const refusal = refusalOf(cause)
          if (refusal === undefined) throw cause
          return go('keeping', failed(s, refusal))
        }
      },

      async keeping() {
        return wait(hours(1))
      },

      async removing({ subject: s, signal }) {
        // Wait until the move of the volume has ended. The workflow of the move then pokes this one.
        if (s.moving) return wait(minutes(1))
        const volume = await volumeById(deps.db, s.volumeId)
        if (volume?.hostId && !(volume.bound && volume.hostRemoved)) {
          const hostId = await reachableHost(deps, volume)
          // No host that can access the volume is up. Retry later, because a lost host may come back.
          if (hostId === undefined) return wait(minutes(10))
          const observed = await agentClient(deps.bus, hostId).putVolumeSnapshot(desiredOf(s), signal)
          if (observed.state !== 'absent') return wait(pollMs)
        }
        return done(async tx => {
          await store.remove(tx, s.id)
          await pokeOwner(tx, s)
        })
      },
    },
  })

const failed = (s: VolumeSnapshot, why: string) => async (tx: Tx) => {
  await store.fail(tx, s.id, why)
  await notifyVms(tx, s.id, 'failed')
  await pokeOwner(tx, s)
}

/**
 * Pokes VMs whose restore waits for this snapshot: before a VM is restored from a VM snapshot, the current content of
 * its volumes is saved in volume snapshots. If the content cannot be saved, the VM boots instead of being restored.
 */
async function notifyVms(tx: Tx, snapshotId: string, state: 'ready' | 'failed'): Promise<void> {
  for (const vmId of await store.vmsWaitingFor(tx, snapshotId)) {
    if (state === 'failed') await giveUpRestore(tx, vmId)
    await pokeVm(tx, vmId)
  }
}

/**
 * Returns the error message if the host has refused the request for a reason that a retry would not change; else
 * undefined.
 */
function refusalOf(cause: unknown): string | undefined {
  const final = ['no_such_pool', 'invalid_volume', 'invalid_snapshot', 'volume_missing']
  return cause instanceof BusError && final.includes(cause.remoteCode ?? '') ? cause.message : undefined
}

/** Records a host's observation of a volume snapshot, and pokes the workflows that depend on the snapshot. */
export async function recordVolumeSnapshot(tx: Tx, hostId: string, observed: VolumeSnapshotObserved): Promise<void> {
  const { state } = observed
  if (state === 'absent') return poke(tx, 'volume-snapshot', observed.snapshotId)
  if (state !== 'ready' && state !== 'failed') return
  const { snapshotId, sizeBytes, pauseMs, error } = observed
  if (!(await store.record(tx, hostId, { snapshotId, state, sizeBytes, pauseMs, error }))) return
  await poke(tx, 'volume-snapshot', snapshotId)
  await notifyVms(tx, snapshotId, state)
  const snapshot = await store.byId(tx, snapshotId)
  if (snapshot) await pokeOwner(tx, snapshot)
}
