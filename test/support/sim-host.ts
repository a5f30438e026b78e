/**
 * A simulated host that communicates with the control plane as an agent does. Nothing happens by itself: each `tick`
 * advances every VM and snapshot by one step, so that a test (or a seed) decides the order of events.
 */
import { crash, end, newSimVm, observedOf, running, type SimSnapshot, type SimVm, simSteps } from './sim-vm.ts'
import { breakSnapshotMoves, comingSnapshot, type SimSnapshotParcel, stepSnapshotMove } from './sim-snapshots.ts'
import { type SimOffer, simFake } from './sim-offers.ts'
import { copyKey, Refused, type SimParcel, type SimVolumes, simVolumes } from './sim-volumes.ts'
import { fakeSessions } from '../../src/agent/hypervisor/fake/sessions.ts'
import { VmSessions } from '../../src/agent/vm/sessions.ts'
import { bootKey } from '../../src/agent/vm/record.ts'
import type { Bus, Subscription } from '../../src/bus/bus.ts'
import {
  type HostHeartbeat,
  type LogForget,
  type LogSearch,
  type SnapshotObserved,
  type SnapshotPut,
  type VmObserved,
  type VmPut,
  type VmSession,
  subjects,
} from '../../src/contract/agent.ts'

export type { SimVm }

export interface SimHost {
  readonly id: string
  readonly name: string
  readonly vms: ReadonlyMap<string, SimVm>
  readonly snapshots: ReadonlyMap<string, SimSnapshot>
  /** Removes all VMs, snapshots and volumes without a report. */
  clear(): void
  /** Ids of apps whose stored log lines the host was requested to delete. */
  readonly forgottenApps: readonly string[]
  readonly storage: SimVolumes
  /** If false, the host receives no requests and sends no messages, but its VMs keep running. */
  reachable: boolean
  /** Behavior of VMs by their image: never healthy, crash, or exit with code 0. */
  readonly behaviour: Map<string, 'unhealthy' | 'crash' | 'finish'>
  /** Advances all VMs, snapshots and volumes by one step, and publishes reports about the changes. */
  tick(): Promise<void>
  heartbeat(full?: boolean): HostHeartbeat
  crash(vmId: string): void
  /** Simulates a power failure: all VMs stop, and stored data survive. */
  powerCut(): void
  observed(vmId: string): VmObserved
  snapshot(snapshotId: string): SnapshotObserved
  stop(): Promise<void>
}

export interface SimHostOptions {
  readonly id: string
  readonly name: string
  readonly vcpus?: number
  readonly memoryMib?: number
  readonly diskMib?: number
  /** Free space of the storage pool; default: 1 TiB. */
  readonly poolBytes?: number
  readonly migrate?: 'live' | 'none'
  /** Hypervisors that the host offers; by default, a simulated one with the options below. */
  readonly offers?: readonly SimOffer[]
  /** VMs that migrate between simulated hosts (`SimWorld.wires`). */
  readonly wires?: Map<string, SimVm>
  /** Volumes in transfer between all hosts. */
  readonly parcels?: Map<string, SimParcel>
  /** VM snapshots in transfer between all hosts. Without this map, the host does not support moving snapshots. */
  readonly snapshotParcels?: Map<string, SimSnapshotParcel>
  /**
   * VMM, version and CPU that new snapshots report; default: `sim`. Hypervisors other than `fake` append their name.
   */
  readonly snapshotKind?: string
  /** Expected content of each volume, over all hosts. */
  readonly truth?: Map<string, string>
  /** Whether a live migration can include volumes; default: true. */
  readonly movesVolumes?: boolean
  /** Whether the host can migrate a paused VM; default: true. */
  readonly movesPaused?: boolean
  /**
   * Whether VM reports carry their time, so that the control plane can ignore reports that arrive out of order;
   * default: false, as with an old agent.
   */
  readonly reportsTime?: boolean
  /** Called before each message is sent. The message is lost if it returns false. */
  readonly passes?: () => boolean
}

export async function simHost(bus: Bus, options: SimHostOptions): Promise<SimHost> {
  const {
    id,
    name,
    wires = new Map<string, SimVm>(),
    passes = () => true,
    snapshotParcels,
    snapshotKind = 'sim',
    movesVolumes = true,
    movesPaused = true,
    migrate = 'live',
  } = options
  const movesSnapshots = snapshotParcels !== undefined
  const offers = options.offers ?? [simFake(migrate, { movesVolumes, movesPaused, movesSnapshots })]
  const kindOf = (hypervisor: string) => (hypervisor === 'fake' ? snapshotKind : `${snapshotKind} ${hypervisor}`)
  const kinds = new Set(offers.map(offer => kindOf(offer.name)))
  const stopsToMove = new Set(
    offers.flatMap(offer => (offer.capabilities.migrate === 'stop-and-copy' ? [offer.name] : [])),
  )
  const vms = new Map<string, SimVm>()
  const snapshots = new Map<string, SimSnapshot>()
  const gone = new Map<string, number>()
  const storage = simVolumes(vms, options.parcels, options.truth)
  const behaviour = new Map<string, 'unhealthy' | 'crash' | 'finish'>()
  const subscriptions: Subscription[] = []
  let reachable = true

  const observed = (vmId: string): VmObserved => {
    const vm = vms.get(vmId)
    const time = options.reportsTime ? { atUs: Math.round((performance.timeOrigin + performance.now()) * 1000) } : {}
    if (vm) return { ...observedOf(vm), ...time }
    return {
      vmId,
      generation: gone.get(vmId) ?? 0,
      state: 'absent',
      healthy: false,
      endpoint: null,
      imageDigest: null,
      hypervisor: offers[0]?.name ?? 'fake',
      error: null,
      exitCode: null,
      restartCount: 0,
      startedAtMs: null,
      steps: [],
      ...time,
    }
  }
  const publish = async (subject: string, message: unknown) => {
    if (reachable && passes()) await bus.publish(subject, message)
  }
  const snapshotObserved = (snapshotId: string): SnapshotObserved => {
    const found = snapshots.get(snapshotId)
    return {
      snapshotId,
      vmId: found?.put.vmId ?? '',
      generation: found?.put.generation ?? 0,
      state: found?.state ?? 'absent',
      sizeBytes: found?.state === 'ready' ? 4096 : 0,
      sha256: found?.state === 'ready' ? 'ab'.repeat(32) : null,
      madeBy: found?.madeBy ?? null,
      pauseMs: 1,
      error: found?.state === 'failed' ? 'the snapshot is not on this host' : null,
      ...(found?.transfer ? { transfer: found.transfer } : {}),
      ...(found && found.disks.length > 0 ? { disks: [...found.disks] } : {}),
    }
  }

  const put = (desired: VmPut): VmObserved => {
    const vm = vms.get(desired.vmId)
    const known = vm?.desired.generation ?? gone.get(desired.vmId) ?? 0
    if (desired.generation < known)
      throw new Refused('stale_generation', `${desired.generation} is older than ${known}`)
    if (vm) {
      if (desired.generation > known) {
        if (vm.record.crash) vm.record = { ...vm.record, recentRestarts: 0 }
        vm.desired = desired
      }
    } else if (desired.want === 'absent') gone.set(desired.vmId, desired.generation)
    else if (desired.generation > known) vms.set(desired.vmId, newSimVm(desired))
    return observed(desired.vmId)
  }
  const forget = ({ vmId, generation }: { vmId: string; generation: number }): VmObserved => {
    const vm = vms.get(vmId)
    if (!vm) return observed(vmId)
    if (generation < vm.desired.generation) throw new Refused('stale_generation', 'newer')
    vm.desired = { ...vm.desired, generation, want: 'absent' }
    return observed(vmId)
  }
  const putSnapshot = (desired: SnapshotPut): SnapshotObserved => {
    const known = snapshots.get(desired.snapshotId)
    const source = vms.get(desired.vmId)
    if (known && desired.generation < known.put.generation) throw new Refused('stale_generation', 'newer')
    // Ignore a desired state with the generation that is already stored: it contains nothing new.
    if (known && desired.generation > known.put.generation) known.put = desired
    else if (known) return snapshotObserved(desired.snapshotId)
    else if (desired.incoming || desired.arrived) snapshots.set(desired.snapshotId, comingSnapshot(desired))
    else if (desired.want === 'present') {
      if (!source || !running.has(source.state)) throw new Refused('invalid_state', 'the VM does not run')
      const stays = desired.afterwards === 'stay'
      const { memory, identity } = source
      const madeBy = kindOf(source.desired.spec.hypervisor)
      const disks = source.desired.spec.disks
        .filter(disk => source.disks.some(one => one.volumeId === disk.volumeId && one.state === 'attached'))
        .map(({ volumeId, generation, mountPoint, readOnly }) => ({
          volumeId,
          generation,
          mountPoint,
          readOnly,
          copied: !stays && !readOnly,
        }))
      const contents = new Map(disks.map(({ volumeId }) => [volumeId, storage.volumes.get(volumeId)?.content ?? '']))
      const { snapshotId } = desired
      for (const { volumeId, copied } of disks)
        if (copied) storage.copies.set(copyKey({ snapshotId, volumeId }), contents.get(volumeId) ?? '')
      snapshots.set(snapshotId, { put: desired, state: 'creating', memory, identity, madeBy, disks, contents, stays })
      if (!stays || disks.length === 0) return snapshotObserved(desired.snapshotId)
      source.record = { ...source.record, paused: true, keptFor: desired.snapshotId }
      source.healthy = false
    }
    return snapshotObserved(desired.snapshotId)
  }

  const step = simSteps({
    hostId: id,
    wires,
    vms,
    snapshots,
    gone,
    behaviour,
    kindOf,
    stopsToMove,
    stepDisks: storage.stepDisks,
    contentOf: volumeId => storage.volumes.get(volumeId)?.content,
    rewind: storage.write,
    pack: storage.pack,
    unpack: storage.unpack,
  })
  const stepSnapshot = (snapshotId: string, snapshot: SimSnapshot): boolean => {
    if (snapshot.put.want === 'absent') {
      // As with a real agent, a snapshot is not removed while a VM still has to start from it.
      const needs = ({ desired, record }: SimVm) =>
        desired.want === 'running' &&
        desired.spec.from?.snapshotId === snapshotId &&
        record.bootKey !== bootKey(desired.spec)
      if ([...vms.values()].some(needs)) return false
      for (const { volumeId } of snapshot.disks) storage.copies.delete(copyKey({ snapshotId, volumeId }))
      snapshots.delete(snapshotId)
      return true
    }
    const moved = stepSnapshotMove(snapshot, snapshotParcels ?? new Map(), kinds)
    if (moved !== undefined) return moved
    if (snapshot.state !== 'creating') return false
    snapshot.state = 'ready'
    return true
  }

  const forgottenApps: string[] = []
  const answer = async (subject: string, act: (data: never) => unknown) =>
    subscriptions.push(
      await bus.serve(subject, data => {
        if (!reachable || !passes()) throw new Refused('unreachable', `${name} does not answer`)
        const result = act(data as never)
        if (!passes()) throw new Refused('unreachable', `the answer of ${name} was lost`)
        return result
      }),
    )
  const verb = (of: Parameters<typeof subjects.hostIn>[1]) => subjects.hostIn(id, of)
  await answer(verb('vm.put'), put)
  await answer(verb('vm.get'), ({ vmId }: { vmId: string }) => observed(vmId))
  await answer(verb('vm.list'), () => ({ vms: [...vms.keys()].map(observed) }))
  await answer(verb('vm.forget'), forget)
  await answer(verb('vm.logs'), () => ({ lines: [{ atUs: 1, stream: 'stdout', line: 'the last line' }] }))
  await answer(verb('logs.search'), ({ vmIds, beforeUs, afterUs }: LogSearch) => ({
    lines: vmIds.map(vmId => ({
      vmId,
      atUs: Math.min(beforeUs - 1, afterUs + 1),
      stream: 'stdout',
      line: 'the last line',
    })),
    reached: null,
  }))
  await answer(verb('logs.forget'), ({ appIds }: LogForget) => {
    forgottenApps.push(...appIds)
    return {}
  })
  await answer(verb('ping'), () => ({ incarnation: 'sim' }))
  await answer(verb('snapshot.put'), putSnapshot)
  await answer(verb('snapshot.get'), ({ snapshotId }: { snapshotId: string }) => snapshotObserved(snapshotId))
  await answer(verb('volume.put'), storage.put)
  await answer(verb('volume.get'), ({ volumeId }: { volumeId: string }) => storage.observed(volumeId))
  await answer(verb('volume.snapshot'), storage.putSnapshot)
  await answer(verb('vm.exec'), ({ command }: { command: string[] }) => ({
    exitCode: 0,
    stdout: command.join(' '),
    stderr: '',
    truncated: false,
  }))
  const sessions = new Map<string, VmSessions>()
  await answer(verb('vm.session'), ({ vmId, request }: VmSession) => {
    if (!vms.has(vmId)) throw new Refused('vm_not_running', 'the VM does not run')
    const ofVm = sessions.get(vmId) ?? new VmSessions(fakeSessions())
    sessions.set(vmId, ofVm)
    return ofVm.serve(request)
  })

  return {
    id,
    name,
    vms,
    snapshots,
    storage,
    forgottenApps,
    behaviour,
    get reachable() {
      return reachable
    },
    set reachable(is) {
      reachable = is
    },
    async tick() {
      const moved = storage.tick()
      for (const observed of moved.volumes) await publish(subjects.volume(id), observed)
      for (const observed of moved.snapshots) await publish(subjects.volumeSnapshot(id), observed)
      for (const [vmId, vm] of [...vms]) if (step(vm)) await publish(subjects.observed(id), observed(vmId))
      for (const [snapshotId, snapshot] of [...snapshots])
        if (stepSnapshot(snapshotId, snapshot))
          await publish(subjects.snapshot(id), {
            ...snapshotObserved(snapshotId),
            vmId: snapshot.put.vmId,
            generation: snapshot.put.generation,
          })
    },
    heartbeat: (full = true) => ({
      hostId: id,
      name,
      incarnation: 'sim',
      version: '0',
      arch: 'x64',
      network: 'fake',
      vcpus: options.vcpus ?? 16,
      memoryMib: options.memoryMib ?? 16_384,
      diskMib: options.diskMib ?? 1_000_000,
      hypervisors: offers.map(({ name: offered, emulated, capabilities, features }) => ({
        name: offered,
        available: true,
        detail: 'simulated',
        ...(emulated ? { emulated } : {}),
        ...(features.includes('moved-snapshots') ? { snapshotKind: kindOf(offered) } : {}),
        features: [...features],
        capabilities,
      })),
      vms: full ? [...vms.keys()].map(observed) : null,
      stats: [],
      pools: [{ name: 'local', kind: 'dir', shared: false, freeBytes: options.poolBytes ?? 2 ** 40, encrypted: false }],
    }),
    crash(vmId) {
      const vm = vms.get(vmId)
      if (!vm) return
      end(vm)
      crash(vm)
    },
    powerCut() {
      for (const vm of vms.values()) end(vm)
      storage.powerCut()
      breakSnapshotMoves(snapshots.values())
    },
    observed,
    clear() {
      for (const all of [vms, snapshots, storage.volumes, storage.snapshots]) all.clear()
    },
    snapshot: snapshotObserved,
    async stop() {
      for (const subscription of subscriptions) await subscription.stop()
    },
  }
}
