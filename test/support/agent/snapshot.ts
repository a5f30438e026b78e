/** Moves a VM snapshot or a volume from one test agent to another, in the same steps as the control plane. */
import type { SnapshotObserved, SnapshotPut, Transfer, VolumeObserved } from '../../../src/contract/agent.ts'
import { until } from '../wait.ts'
import type { TestAgent } from './agent.ts'

export const observedOf = async (host: TestAgent) =>
  (await host.request('snapshot.get', { snapshotId: 'snap-1' })) as SnapshotObserved
export const put = (host: TestAgent, generation: number, more: Partial<SnapshotPut> = {}) =>
  host.request('snapshot.put', { snapshotId: 'snap-1', vmId: 'parent', generation, want: 'present', ...more })

/** Waits until the snapshot's transfer is in one of these phases, and returns it. */
export const phase = (host: TestAgent, ...phases: Transfer['phase'][]) =>
  until(
    async () => {
      const { transfer } = await observedOf(host)
      return transfer && phases.includes(transfer.phase) ? transfer : undefined
    },
    { what: `the snapshot is ${phases.join(' or ')}`, timeoutMs: 60_000 },
  )

export interface Kept {
  readonly source: TestAgent
  readonly kept: SnapshotObserved
}

/** Sends a snapshot to the target, and waits until both hosts report that the transfer is complete or has failed. */
export async function send({ source, kept }: Kept, target: TestAgent, transferId: string, generation: number) {
  const { sizeBytes, madeBy } = kept
  await put(target, generation, { incoming: { transferId, sizeBytes, madeBy: madeBy ?? '' } })
  const { uri } = await phase(target, 'listening')
  await put(source, generation, { outgoing: { transferId, uri: uri ?? '' } })
  return Promise.all([phase(source, 'complete', 'failed'), phase(target, 'complete', 'failed')])
}

/** Moves a detached volume to the target, which then has the authoritative copy. */
export async function moveVolume(source: TestAgent, target: TestAgent, volumeId: string, snapshots: readonly string[]) {
  const volume = { volumeId, want: 'present', pool: 'local', sizeMib: 32 } as const
  const volumeAt = async (host: TestAgent, phase: Transfer['phase']) =>
    until(
      async () => {
        const { transfer } = (await host.request('volume.get', { volumeId })) as VolumeObserved
        return transfer?.phase === phase ? transfer : undefined
      },
      { what: `the volume to be ${phase}`, timeoutMs: 60_000 },
    )
  await target.request('volume.put', { ...volume, generation: 2, incoming: { transferId: 'v1' } })
  const { uri } = await volumeAt(target, 'listening')
  const outgoing = { transferId: 'v1', uri, final: true, snapshots: [...snapshots] }
  await source.request('volume.put', { ...volume, generation: 2, outgoing })
  await volumeAt(source, 'complete')
  await target.volume({ ...volume, generation: 3, arrived: { transferId: 'v1' } })
}
