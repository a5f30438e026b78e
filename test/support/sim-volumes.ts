/**
 * Volumes of a simulated host. A volume's content is a text. Only one VM at a time may have write access to a volume.
 */
import type {
  DiskSpec,
  VolumeObserved,
  VolumePut,
  VolumeSnapshotObserved,
  VolumeSnapshotPut,
  Transfer,
} from '../../src/contract/agent.ts'
import type { SimVm } from './sim-vm.ts'

export interface SimVolume {
  put: VolumePut
  state: 'creating' | 'ready' | 'restoring'
  restored: number
  sizeMib: number
  /** Error message with which growing the volume fails; absent if it succeeds. */
  failGrowth?: string
  content: string
  /** Newest attachment generation with which a VM has opened the volume. */
  generation: number
  transfer?: Transfer
  /** Id of the transfer with which the complete volume has arrived. */
  received?: string
}

/** A volume that a host has sent and another has not received yet. */
export interface SimParcel {
  content: string
  snapshots: ReadonlyMap<string, SimVolumeSnapshot>
  /** Copies of the volume in VM snapshots, by snapshot id. */
  copies: ReadonlyMap<string, string>
  /** True once the copy is complete, because the source no longer writes to the volume. */
  whole: boolean
  taken: boolean
}

export interface SimVolumeSnapshot {
  put: VolumeSnapshotPut
  state: 'creating' | 'ready' | 'failed'
  content: string
}

export interface SimVolumes {
  readonly volumes: Map<string, SimVolume>
  readonly snapshots: Map<string, SimVolumeSnapshot>
  /** Copies of volumes in VM snapshots, by `copyKey`. */
  readonly copies: Map<string, string>
  put(desired: VolumePut): VolumeObserved
  observed(volumeId: string): VolumeObserved
  putSnapshot(desired: VolumeSnapshotPut): VolumeSnapshotObserved
  snapshot(snapshotId: string): VolumeSnapshotObserved
  /** Advances volumes and snapshots by one step, and returns those that have changed. */
  tick(): { readonly volumes: readonly VolumeObserved[]; readonly snapshots: readonly VolumeSnapshotObserved[] }
  /** Attaches or detaches one volume of a running VM, as desired. Returns false if nothing changed. */
  stepDisks(vm: SimVm): boolean
  /** Replaces a volume's content, as a guest does, or as restoring a VM does. */
  write(volumeId: string, content: string): void
  /** Returns the volumes that move with a VM, for the target to store with `unpack`. */
  pack(
    volumes: readonly { readonly volumeId: string; readonly snapshots: readonly string[] }[],
  ): ReadonlyMap<string, SimParcel>
  unpack(parcels: ReadonlyMap<string, SimParcel>): void
  /** Makes the volume transfers in progress fail. */
  powerCut(): void
}

/** Returns the key of a volume's copy in a VM snapshot. */
export const copyKey = ({ snapshotId, volumeId }: { readonly snapshotId: string; readonly volumeId: string }) =>
  `${snapshotId} ${volumeId}`

export class Refused extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * @param parcels volumes in transfer between hosts
 * @param truth expected content of each volume over all hosts: the last text that was written or restored
 */
export function simVolumes(
  vms: ReadonlyMap<string, SimVm>,
  parcels = new Map<string, SimParcel>(),
  truth = new Map<string, string>(),
): SimVolumes {
  const volumes = new Map<string, SimVolume>()
  const snapshots = new Map<string, SimVolumeSnapshot>()
  const copies = new Map<string, string>()
  const gone = new Map<string, number>()
  const contentIn = (from: NonNullable<VolumePut['from']>) =>
    snapshots.get(from.snapshotId)?.content ?? copies.get(copyKey(from)) ?? 'lost'

  const observed = (volumeId: string): VolumeObserved => {
    const found = volumes.get(volumeId)
    const state = found === undefined ? 'absent' : found.put.want === 'absent' ? 'removing' : found.state
    const generation = found?.put.generation ?? gone.get(volumeId) ?? 0
    const transfer = found?.transfer ? { transfer: found.transfer } : {}
    const observed = { volumeId, generation, restored: found?.restored ?? 0, sizeMib: found?.sizeMib ?? 0, ...transfer }
    if (found?.failGrowth && found.sizeMib < found.put.sizeMib)
      return { ...observed, state: 'failed', error: found.failGrowth }
    return { ...observed, state, error: null }
  }
  const snapshot = (snapshotId: string): VolumeSnapshotObserved => {
    const found = snapshots.get(snapshotId)
    return {
      snapshotId,
      volumeId: found?.put.volumeId ?? '',
      generation: found?.put.generation ?? 0,
      state: found === undefined ? 'absent' : found.put.want === 'absent' ? 'removing' : found.state,
      sizeBytes: found?.state === 'ready' ? 4096 : 0,
      pauseMs: 1,
      error: found?.state === 'failed' ? 'there is no such volume' : null,
    }
  }
  const held = (volumeId: string) => [...vms.values()].some(vm => vm.disks.some(disk => disk.volumeId === volumeId))

  const parcelOf = (volumeId: string, ids: readonly string[]): SimParcel => ({
    content: volumes.get(volumeId)?.content ?? 'lost',
    snapshots: new Map([...snapshots].filter(([id]) => ids.includes(id))),
    copies: new Map(
      ids.flatMap(snapshotId => {
        const content = copies.get(copyKey({ snapshotId, volumeId }))
        return content === undefined ? [] : [[snapshotId, content] as const]
      }),
    ),
    whole: false,
    taken: false,
  })
  const take = (volume: SimVolume, parcel: SimParcel, transferId: string) => {
    volume.content = parcel.content
    volume.received = transferId
    for (const [id, one] of parcel.snapshots) snapshots.set(id, { ...one })
    const { volumeId } = volume.put
    for (const [snapshotId, content] of parcel.copies) copies.set(copyKey({ snapshotId, volumeId }), content)
  }
  const stepTransfer = (volume: SimVolume): boolean => {
    const { volumeId, incoming, outgoing } = volume.put
    const wanted = incoming ?? outgoing
    const before = JSON.stringify(volume.transfer)
    if (!wanted) delete volume.transfer
    else if (volume.transfer?.transferId !== wanted.transferId) {
      const nothing = { percent: 0, transferredBytes: 0, totalBytes: 4096, error: null }
      const of = { transferId: wanted.transferId, uri: incoming ? (incoming.vmId ? '' : 'sim:') : null, ...nothing }
      if (incoming && volume.received === incoming.transferId)
        volume.transfer = { ...of, role: 'target', phase: 'complete' }
      else if (incoming) volume.transfer = { ...of, role: 'target', phase: 'listening' }
      else volume.transfer = { ...of, role: 'source', phase: 'copying' }
    } else if (incoming) {
      const parcel = parcels.get(incoming.transferId)
      if (parcel?.whole && volume.transfer.phase === 'listening') {
        take(volume, parcel, incoming.transferId)
        parcel.taken = true
        volume.transfer = { ...volume.transfer, phase: 'complete', percent: 100 }
      }
    } else if (outgoing && volume.transfer.phase === 'copying')
      volume.transfer = { ...volume.transfer, phase: 'copied', percent: 90 }
    else if (outgoing && volume.transfer.phase === 'copied') {
      const parcel = parcels.get(outgoing.transferId)
      if (parcel?.taken) volume.transfer = { ...volume.transfer, phase: 'complete', percent: 100 }
      else if (!parcel && outgoing.final && !held(volumeId))
        parcels.set(outgoing.transferId, { ...parcelOf(volumeId, outgoing.snapshots), whole: true })
    }
    return JSON.stringify(volume.transfer) !== before
  }

  const stepVolume = (volume: SimVolume): boolean => {
    const { volumeId, want, from, restore, generation, incoming, arrived } = volume.put
    const moved = want === 'present' && stepTransfer(volume)
    if (moved || (want === 'present' && incoming)) return moved
    if (want === 'present' && volume.state === 'creating' && arrived) {
      if (volume.failGrowth !== undefined) return false
      if (volume.received !== arrived.transferId)
        throw new Error(`volume ${volumeId} is authoritative here, but has not arrived`)
      const last = truth.get(volumeId) ?? volume.content
      if (volume.content !== last)
        throw new Error(`volume ${volumeId} arrived with "${volume.content}", but "${last}" was written to it`)
      volume.state = 'ready'
      volume.restored = restore?.count ?? 0
      volume.sizeMib = volume.put.sizeMib
      return true
    }
    if (want === 'absent') {
      if (held(volumeId)) return false
      volumes.delete(volumeId)
      gone.set(volumeId, generation)
      for (const [id, one] of snapshots) if (one.put.volumeId === volumeId) snapshots.delete(id)
      for (const key of copies.keys()) if (key.endsWith(volumeId)) copies.delete(key)
      return true
    }
    if (volume.state === 'creating') {
      volume.content = from ? contentIn(from) : 'empty'
      truth.set(volumeId, volume.content)
      volume.state = 'ready'
      volume.sizeMib = volume.put.sizeMib
      return true
    }
    if (volume.sizeMib < volume.put.sizeMib && volume.failGrowth === undefined) {
      volume.sizeMib = volume.put.sizeMib
      return true
    }
    if (!restore || restore.count <= volume.restored || held(volumeId)) return false
    volume.content = snapshots.get(restore.snapshotId)?.content ?? 'lost'
    truth.set(volumeId, volume.content)
    volume.restored = restore.count
    volume.state = 'ready'
    return true
  }
  const stepSnapshot = (one: SimVolumeSnapshot): boolean => {
    if (one.put.want === 'absent') return snapshots.delete(one.put.snapshotId)
    if (one.state !== 'creating') return false
    const source = volumes.get(one.put.volumeId)
    one.state = source ? 'ready' : 'failed'
    one.content = source?.content ?? ''
    return true
  }
  /** Opens a volume for a VM. @throws Refused with the same error codes as the agent */
  const open = (vm: SimVm, disk: DiskSpec): void => {
    const volume = volumes.get(disk.volumeId)
    if (volume?.state !== 'ready' || volume.put.outgoing?.final)
      throw new Refused('volume_missing', 'the volume is not on this host')
    if (disk.generation < volume.generation)
      throw new Refused('stale_volume_generation', 'the attachment generation is older')
    const wanted = (other: SimVm) => other.desired.spec.disks.find(one => one.volumeId === disk.volumeId)
    for (const other of vms.values()) {
      if (other === vm || !other.disks.some(one => one.volumeId === disk.volumeId)) continue
      if (!disk.readOnly || wanted(other)?.readOnly === false)
        throw new Refused('volume_in_use', 'another VM has the volume')
    }
    volume.generation = disk.generation
  }

  return {
    volumes,
    snapshots,
    copies,
    observed,
    snapshot,
    put(desired) {
      const known = volumes.get(desired.volumeId)
      const generation = known?.put.generation ?? gone.get(desired.volumeId) ?? 0
      if (desired.generation < generation) throw new Refused('stale_generation', 'newer')
      if (known) {
        if (desired.generation > generation && desired.incoming && known.state !== 'creating')
          throw new Error(`volume ${desired.volumeId} is to move to a host that already has it`)
        if (desired.generation > generation) known.put = desired
        if (desired.restore && desired.restore.count > known.restored && known.state === 'ready')
          known.state = 'restoring'
      } else if (desired.want === 'present' && desired.generation > generation)
        volumes.set(desired.volumeId, {
          put: desired,
          state: 'creating',
          restored: 0,
          sizeMib: 0,
          content: '',
          generation: 0,
        })
      else gone.set(desired.volumeId, desired.generation)
      return observed(desired.volumeId)
    },
    putSnapshot(desired) {
      const known = snapshots.get(desired.snapshotId)
      if (known && desired.generation < known.put.generation) throw new Refused('stale_generation', 'newer')
      if (known) known.put = desired
      else if (desired.want === 'present')
        snapshots.set(desired.snapshotId, { put: desired, state: 'creating', content: '' })
      return snapshot(desired.snapshotId)
    },
    tick: () => ({
      volumes: [...volumes.values()].filter(stepVolume).map(volume => observed(volume.put.volumeId)),
      snapshots: [...snapshots.values()].filter(stepSnapshot).map(one => ({
        ...snapshot(one.put.snapshotId),
        volumeId: one.put.volumeId,
        generation: one.put.generation,
      })),
    }),
    write(volumeId, content) {
      const volume = volumes.get(volumeId)
      if (!volume) return
      volume.content = content
      truth.set(volumeId, content)
    },
    pack: all => new Map(all.map(one => [one.volumeId, parcelOf(one.volumeId, one.snapshots)])),
    unpack(all) {
      for (const [volumeId, parcel] of all) {
        const volume = volumes.get(volumeId)
        const transferId = volume?.put.incoming?.transferId
        if (volume && transferId) take(volume, parcel, transferId)
      }
    },
    powerCut() {
      for (const volume of volumes.values()) {
        if (volume.transfer?.role === 'target') delete volume.transfer
        else if (volume.transfer && volume.transfer.phase !== 'complete')
          volume.transfer = { ...volume.transfer, phase: 'failed', error: 'the connection broke' }
      }
    },
    stepDisks(vm) {
      const { disks } = vm.desired.spec
      const excess = vm.disks.find(disk => !disks.some(one => one.volumeId === disk.volumeId))
      if (excess) {
        vm.disks = vm.disks.filter(disk => disk !== excess)
        return true
      }
      const isThere = (disk: DiskSpec) =>
        vm.disks.some(one => one.volumeId === disk.volumeId && one.state === 'attached')
      const missing = disks.find(disk => !isThere(disk))
      if (!missing) return false
      const { volumeId, generation } = missing
      const others = vm.disks.filter(disk => disk.volumeId !== volumeId)
      try {
        open(vm, missing)
        vm.disks = [...others, { volumeId, generation, state: 'attached', error: null }]
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        // Leave the volume unattached: the next step tries again.
        return false
      }
      return true
    },
  }
}
