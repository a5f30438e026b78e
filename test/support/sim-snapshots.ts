/** Transfers of VM snapshots between simulated hosts, including the content of their volumes. */
import type { SnapshotPut } from '../../src/contract/agent.ts'
import type { SimSnapshot } from './sim-vm.ts'

/** A snapshot that a host has sent and another has not received yet. */
export interface SimSnapshotParcel {
  readonly snapshot: Pick<SimSnapshot, 'memory' | 'identity' | 'madeBy' | 'disks' | 'contents' | 'stays'>
  taken: boolean
}

export const comingSnapshot = (put: SnapshotPut): SimSnapshot => ({
  put,
  state: 'creating',
  memory: '',
  identity: '',
  madeBy: put.incoming?.madeBy ?? null,
  disks: [],
  contents: new Map(),
  stays: false,
})

/** Advances a snapshot's transfer by one step. Returns whether it has changed; undefined if no transfer is desired. */
export function stepSnapshotMove(
  snapshot: SimSnapshot,
  parcels: Map<string, SimSnapshotParcel>,
  kinds: ReadonlySet<string>,
): boolean | undefined {
  const { incoming, arrived, outgoing } = snapshot.put
  const wanted = incoming ?? outgoing
  if (wanted && snapshot.transfer?.transferId !== wanted.transferId) {
    const nothing = { percent: 0, transferredBytes: 0, totalBytes: 4096, error: null, uri: incoming ? 'sim:' : null }
    const of = { transferId: wanted.transferId, ...nothing }
    if (!incoming) snapshot.transfer = { ...of, role: 'source', phase: 'copying' }
    else if (!kinds.has(incoming.madeBy))
      snapshot.transfer = { ...of, role: 'target', phase: 'failed', error: `this host has ${[...kinds].join(' and ')}` }
    else
      snapshot.transfer = {
        ...of,
        role: 'target',
        phase: snapshot.received === incoming.transferId ? 'complete' : 'listening',
      }
    return true
  }
  if (!wanted) delete snapshot.transfer
  if (incoming) return receive(snapshot, incoming.transferId, parcels)
  if (outgoing) return send(snapshot, outgoing.transferId, parcels)
  if (!arrived) return undefined
  if (snapshot.state !== 'creating') return false
  snapshot.state = snapshot.received === arrived.transferId ? 'ready' : 'failed'
  return true
}

function receive(snapshot: SimSnapshot, transferId: string, parcels: Map<string, SimSnapshotParcel>): boolean {
  const parcel = parcels.get(transferId)
  if (!parcel || snapshot.transfer?.phase !== 'listening') return false
  Object.assign(snapshot, parcel.snapshot, { received: transferId })
  parcel.taken = true
  snapshot.transfer = { ...snapshot.transfer, phase: 'complete', percent: 100 }
  return true
}

function send(snapshot: SimSnapshot, transferId: string, parcels: Map<string, SimSnapshotParcel>): boolean {
  if (snapshot.transfer?.phase !== 'copying') return false
  const parcel = parcels.get(transferId)
  const { memory, identity, madeBy, disks, contents, stays } = snapshot
  if (!parcel) parcels.set(transferId, { snapshot: { memory, identity, madeBy, disks, contents, stays }, taken: false })
  else if (parcel.taken) snapshot.transfer = { ...snapshot.transfer, phase: 'complete', percent: 100 }
  return parcel?.taken ?? false
}

/** Makes the snapshot transfers in progress fail. */
export function breakSnapshotMoves(snapshots: Iterable<SimSnapshot>): void {
  for (const snapshot of snapshots) {
    if (snapshot.transfer?.role === 'target') delete snapshot.transfer
    else if (snapshot.transfer && snapshot.transfer.phase !== 'complete')
      snapshot.transfer = { ...snapshot.transfer, phase: 'failed', error: 'the connection broke' }
  }
}
