/**
 * The workflow of a VM snapshot: has its host create it once, retains it until it is deleted, and then has the host
 * remove it.
 */
import type { SnapshotObserved, SnapshotPut } from '../../contract/agent.ts'
import { BusError } from '../../bus/bus.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { pokeMoveOfSnapshot } from '../moves/index.ts'
import type { Snapshot } from './snapshot-store.ts'
import * as store from './snapshot-store.ts'

const makingMs = minutes(10)
/**
 * Interval at which the workflow queries the host. Hosts report changes by themselves, so polling is only for lost
 * messages.
 */
const pollMs = seconds(15)

/**
 * Returns the desired state of the snapshot for its host. The removal has a later generation than the creation and
 * every move.
 */
const desiredOf = (s: Snapshot): SnapshotPut => ({
  snapshotId: s.id,
  vmId: s.vmId,
  generation: s.generation,
  want: s.want,
  // A VM must stay paused after its sleep snapshot (taken when an app scales to zero), so that it does not write to its
  // volumes any more.
  ...(s.kind === 'sleep' ? { afterwards: 'stay' as const } : {}),
})

export const snapshotWorkflow = (deps: Pick<Deps, 'db' | 'bus'>) =>
  workflow<Snapshot>()({
    kind: 'vm-snapshot',
    edges: { creating: ['keeping', 'removing'], keeping: ['removing'], removing: [] },
    load: id => store.byId(deps.db, id),
    preempt: s => (s.want === 'absent' ? 'removing' : undefined),
    phases: {
      async creating({ subject: s, enteredAt, now, signal }): Promise<Next<'keeping'>> {
        if (s.state !== 'creating') return go('keeping')
        if (s.hostLost) return go('keeping', failed(s, 'the host of the VM was lost'))
        if (now.getTime() - enteredAt.getTime() > makingMs)
          return go('keeping', failed(s, 'the host did not finish the snapshot in time'))
        try {
          const observed = await agentClient(deps.bus, s.hostId).putSnapshot(desiredOf(s), signal)
          return wait(pollMs, async tx => {
            await recordSnapshot(tx, s.hostId, observed)
          })
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
        // Do not delete the row before a move of the snapshot ends: until then it is undecided which host owns the
        // snapshot, or another host still has a copy, whose files would never be removed.
        if (s.moving) return wait(seconds(5))
        if (!s.hostRemoved) {
          if (await store.isBeingForked(deps.db, s.id)) return wait(seconds(5))
          // Only the lost host can remove the snapshot's files. Retry later, because it may come back.
          if (s.hostLost) return wait(minutes(10))
          const observed = await agentClient(deps.bus, s.hostId).putSnapshot(desiredOf(s), signal)
          // The host keeps the snapshot's files as long as a VM exists that was started from the snapshot.
          if (observed.state !== 'absent') return wait(seconds(30))
        }
        return done(async tx => {
          await store.remove(tx, s.id)
          await poke(tx, 'deployment', s.deploymentId)
        })
      },
    },
  })

const failed = (s: Snapshot, why: string) => async (tx: Tx) => {
  await store.fail(tx, s.id, why)
  await poke(tx, 'deployment', s.deploymentId)
}

/**
 * Returns the error message if the host has refused the request for a reason that a retry would not change; else
 * undefined.
 */
function refusalOf(cause: unknown): string | undefined {
  const final = ['unsupported_by_hypervisor', 'invalid_state', 'invalid_vm', 'not_found']
  return cause instanceof BusError && final.includes(cause.remoteCode ?? '') ? cause.message : undefined
}

/** Creates the row of a VM snapshot, and the workflow that has the host take it. */
export async function createSnapshot(tx: Tx, snapshot: Omit<store.NewSnapshot, 'id'>): Promise<string> {
  const id = newId()
  await store.insert(tx, { ...snapshot, id })
  await createWorkflow(tx, 'vm-snapshot', id, 'creating', { deadlineMs: makingMs + minutes(1) })
  return id
}

/** Marks VM snapshots of the deployment for deletion: all of them, or only its sleep snapshots. */
export async function dropSnapshots(tx: Tx, deploymentId: string, kind: 'sleep' | null): Promise<void> {
  for (const id of await store.idsOf(tx, deploymentId, kind)) await dropSnapshot(tx, id)
}

export async function dropSnapshot(tx: Tx, id: string): Promise<void> {
  if (await store.markForDeletion(tx, id)) await poke(tx, 'vm-snapshot', id)
}

/** Records a host's observation of a VM snapshot, and pokes the workflows that depend on the snapshot. */
export async function recordSnapshot(tx: Tx, hostId: string, observed: SnapshotObserved): Promise<void> {
  const { state } = observed
  await pokeMoveOfSnapshot(tx, observed.snapshotId)
  if (state === 'absent') return poke(tx, 'vm-snapshot', observed.snapshotId)
  if (state !== 'ready' && state !== 'failed') return
  const deploymentId = await store.record(tx, hostId, { ...observed, state })
  if (!deploymentId) return
  await poke(tx, 'vm-snapshot', observed.snapshotId)
  await poke(tx, 'deployment', deploymentId)
}
