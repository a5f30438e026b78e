/**
 * A simulated VM. The agent's own code (src/agent/vm) decides the next action and reports the observed state; only the
 * hypervisor and the guest are simulated. Each call advances one step, so that a seed decides the order of events.
 */
import { decide, type VmAction, type VmFacts } from '../../src/agent/vm/decide.ts'
import { migrationFact } from '../../src/agent/vm/migration.ts'
import { inPlaceOf, obstacleOf, originKey } from '../../src/agent/vm/origin.ts'
import { isCrashed, observe, type Stage } from '../../src/agent/vm/observe.ts'
import { bootKey, newRecord, type VmRecord } from '../../src/agent/vm/record.ts'
import { isRestarted } from '../../src/agent/vm/restarts.ts'
import type { SimParcel, SimVolumes } from './sim-volumes.ts'
import type {
  DiskObserved,
  MigrationObserved,
  SnapshotDisk,
  SnapshotObserved,
  SnapshotPut,
  Transfer,
  VmObserved,
  VmPut,
  VmSpec,
  VmState,
} from '../../src/contract/agent.ts'

export interface SimVm {
  readonly vmId: string
  desired: VmPut
  /** The VM record that an agent would store. */
  record: VmRecord
  stage: Stage
  /** Hash of the boot number and the settings of the start in progress, as the agent's `bootKey` returns it. */
  bringing: string
  workload: 'running' | 'exited'
  healthy: boolean
  /** Volumes that the guest has mounted. */
  disks: DiskObserved[]
  /** Memory content of the guest. It moves with the VM, and is lost when the VM stops. */
  memory: string
  /** Network identity of the guest; a fork gets a new one. */
  identity: string
  /** True if the VM has started from a snapshot. */
  restored?: boolean
  /** True while a move by stop-and-copy pauses the guest. The host does not report this pause. */
  stopped?: boolean
  /** Stores the volumes that arrive with a migrating guest; set while the VM waits for its guest to arrive. */
  takes?: (parcels: ReadonlyMap<string, SimParcel>) => void
  readonly state: VmState
}

export interface SimSnapshot {
  put: SnapshotPut
  state: SnapshotObserved['state']
  memory: string
  identity: string
  /** VMM, version and CPU with which the snapshot was made; null if not known yet. */
  madeBy: string | null
  /** Volumes that the guest has mounted, and their content as the guest knows it. */
  disks: readonly SnapshotDisk[]
  contents: ReadonlyMap<string, string>
  stays: boolean
  transfer?: Transfer
  /** Id of the transfer with which the complete snapshot has arrived. */
  received?: string
}

/** What a simulated VM reads and changes outside itself: its host, other VMs, and the network between hosts. */
export interface SimWorld {
  readonly hostId: string
  /**
   * The network between hosts. The key `at <address>` has the target VM that listens for a migrating guest; the key
   * `<address>` has the VM that the source has sent to that address.
   */
  readonly wires: Map<string, SimVm>
  readonly vms: Map<string, SimVm>
  readonly snapshots: ReadonlyMap<string, SimSnapshot>
  /** Last generation of each removed VM. */
  readonly gone: Map<string, number>
  readonly behaviour: ReadonlyMap<string, 'unhealthy' | 'crash' | 'finish'>
  /** Returns the `madeBy` of snapshots that this hypervisor makes. */
  readonly kindOf: (hypervisor: string) => string
  /** Names of hypervisors that migrate by stop-and-copy instead of live. */
  readonly stopsToMove: ReadonlySet<string>
  readonly stepDisks: (vm: SimVm) => boolean
  /** Returns the content of a volume on this host. */
  readonly contentOf: (volumeId: string) => string | undefined
  readonly rewind: (volumeId: string, content: string) => void
  readonly pack: SimVolumes['pack']
  readonly unpack: SimVolumes['unpack']
}

export const running: ReadonlySet<VmState> = new Set(['running', 'paused'])

export function newSimVm(desired: VmPut): SimVm {
  const vm = {
    vmId: desired.vmId,
    desired,
    record: newRecord,
    stage: null,
    bringing: '',
    workload: 'running' as const,
    healthy: false,
    disks: [],
    memory: '',
    identity: '',
    get state(): VmState {
      return observedOf(vm).state
    },
  }
  return vm
}

export function observedOf(vm: SimVm): VmObserved {
  const { desired, record, stage, healthy, disks } = vm
  const version = desired.spec.firewall?.version
  return observe({
    desired,
    record,
    stage,
    healthy,
    disks,
    fault: null,
    firewall: version === undefined ? undefined : { version, state: 'applied', detail: null, healed: 0 },
  })
}

/** Records that the VM's process has exited, for whatever reason. */
export function end(vm: SimVm): void {
  vm.record = { ...vm.record, running: null, paused: false }
  vm.stage = null
  vm.healthy = false
  vm.disks = []
  vm.stopped = false
}

/** Records that the guest's program has exited and is not restarted. */
export function crash(vm: SimVm): void {
  const { generation } = vm.desired
  const message = `The program exited with code ${vm.record.exitCode ?? 1}.`
  vm.record = { ...vm.record, crash: { generation, code: 'exited', message } }
}

function factsOf({ desired, record, workload, disks }: SimVm, snapshots: SimWorld['snapshots']): VmFacts {
  const { want, spec } = desired
  return {
    want,
    workload,
    runningVm: record.running === null ? 'none' : record.paused ? 'paused' : 'running',
    current: bootKey(spec) === record.bootKey,
    crashed: isCrashed(desired, record),
    restartsLeft: isRestarted(spec, record.exitCode) && record.recentRestarts < spec.maxRestarts,
    migration: migrationFact(spec, record),
    cleared: true, // a simulated process has no mounts
    kept: record.keptFor !== undefined && snapshots.get(record.keptFor)?.put.want === 'present',
    adjusted:
      disks.length === spec.disks.length &&
      spec.disks.every(disk => disks.some(one => one.volumeId === disk.volumeId && one.state === 'attached')),
  }
}

/** Returns a function that advances a VM by one step and returns false if the VM has not changed. */
export function simSteps(world: SimWorld) {
  const bring = bringing(world)
  const move = moving(world)
  const perform = (vm: SimVm, action: VmAction): void => {
    switch (action) {
      case 'release':
        world.vms.delete(vm.vmId)
        world.gone.set(vm.vmId, vm.desired.generation)
        return
      case 'stop':
        return end(vm)
      case 'boot':
        return bring(vm)
      case 'receive':
        return move.receive(vm)
      case 'hand-over':
        return move.handOver(vm)
      case 'restart':
        vm.workload = 'running'
        vm.record = { ...vm.record, recentRestarts: vm.record.recentRestarts + 1 }
        return
      case 'crash':
        return crash(vm)
      case 'pause':
      case 'resume':
        vm.record = { ...vm.record, paused: action === 'pause' }
        vm.healthy = false
        return
      case 'adjust':
        world.stepDisks(vm)
        return
      case 'rest':
        return live(vm, world.behaviour.get(vm.desired.spec.image))
    }
  }
  return (vm: SimVm): boolean => {
    const before = JSON.stringify([observedOf(vm), vm.workload])
    move.stopListening(vm)
    // A changed desired state cancels the step in progress.
    const { action } = decided(vm, world.snapshots)
    perform(vm, action)
    return !world.vms.has(vm.vmId) || JSON.stringify([observedOf(vm), vm.workload]) !== before
  }
}

function decided(vm: SimVm, snapshots: SimWorld['snapshots']): { readonly action: VmAction } {
  const action = decide(factsOf(vm, snapshots))
  if (vm.stage !== null && (action !== 'boot' || vm.bringing !== bootKey(vm.desired.spec))) end(vm)
  return { action }
}

/** Simulates the guest's program: it becomes healthy, or exits. */
function live(vm: SimVm, behaviour: 'unhealthy' | 'crash' | 'finish' | undefined): void {
  if (vm.state !== 'running') return
  if (behaviour === 'crash' || behaviour === 'finish') {
    vm.workload = 'exited'
    vm.record = { ...vm.record, exitCode: behaviour === 'finish' ? 0 : 1 }
    vm.healthy = false
  } else vm.healthy = behaviour !== 'unhealthy'
}

function goesOn({ disks, stays }: SimSnapshot, spec: VmSpec): boolean {
  const since = spec.from?.renew ? (stays ? 'asleep' : 'forked') : 'restored'
  return disks.length === 0 || obstacleOf(disks, spec.disks, since, spec.from?.clones) === undefined
}

/**
 * Returns a function that boots a VM, or starts it from a snapshot, in three steps. Volumes are attached before the
 * guest's program starts.
 */
function bringing({ hostId, snapshots, stepDisks, contentOf, rewind, kindOf }: SimWorld) {
  let boots = 0
  return (vm: SimVm): void => {
    const { spec, generation } = vm.desired
    if (vm.stage === null) {
      boots += 1
      vm.stage = 'preparing'
      vm.bringing = bootKey(spec)
      vm.disks = []
      vm.record = { ...vm.record, boot: vm.record.boot + 1, crash: null, exitCode: null }
    } else if (vm.stage === 'preparing') {
      const went = vm.record.origin === originKey(spec)
      const found = spec.from && !went ? snapshots.get(spec.from.snapshotId) : undefined
      if (spec.from && !went && found?.state !== 'ready') {
        end(vm)
        const message = 'there is no such snapshot on this host'
        vm.record = { ...vm.record, crash: { generation, code: 'snapshot_missing', message } }
        return
      }
      const source = found && goesOn(found, spec) ? found : undefined
      if (source && source.madeBy !== kindOf(spec.hypervisor))
        throw new Error(`VM ${vm.vmId} starts with ${spec.hypervisor} from a snapshot of ${source.madeBy}`)
      if (source && source.disks.length > 0) {
        for (const { volumeId, copied } of source.disks)
          if (copied && !spec.from?.renew) rewind(volumeId, source.contents.get(volumeId) ?? '')
        for (const { volumeId } of source.disks) {
          const here = inPlaceOf(volumeId, spec.from?.clones)
          if (contentOf(here) !== source.contents.get(volumeId))
            throw new Error(`VM ${vm.vmId} resumes with volume ${here}, whose content has changed since`)
        }
        vm.record = { ...vm.record, origin: originKey(spec) }
      }
      vm.restored = source !== undefined
      vm.memory = source?.memory ?? `${hostId}/${boots}`
      vm.identity = source && !spec.from?.renew ? source.identity : `${vm.vmId}/${boots}`
      vm.stage = 'booting'
    } else {
      if (spec.disks.length > vm.disks.length) stepDisks(vm)
      if (spec.disks.length <= vm.disks.length) inhabit(vm)
    }
  }
}

function inhabit(vm: SimVm): void {
  const { boot } = vm.record
  const endpoint = { host: '127.0.0.1', port: 1000 + Number.parseInt(vm.vmId.slice(-4), 16) }
  const prepared = { imageDigest: 'sha256:simulated', endpoint, notes: {} }
  vm.stage = null
  vm.workload = 'running'
  vm.record = {
    ...vm.record,
    running: { prepared, process: { pid: 1, startTicks: 1 }, boot },
    bootKey: bootKey(vm.desired.spec),
    paused: false,
  }
}

/** Returns the steps of source and target in a migration with the guest's memory: live, or by stop-and-copy. */
function moving({ hostId, wires, snapshots, pack, unpack, stopsToMove }: SimWorld) {
  const note = (vm: SimVm, change: Pick<MigrationObserved, 'migrationId' | 'role' | 'phase' | 'uri' | 'ready'>) => {
    const percent = change.phase === 'switched' ? 100 : change.phase === 'copying' ? 50 : 0
    const migration: MigrationObserved = {
      ...change,
      percent,
      transferredBytes: percent * 1024,
      totalBytes: 102_400,
      error: null,
      downtimeMs: change.phase === 'switched' ? 12 : null,
    }
    vm.record = { ...vm.record, migration }
  }
  const addressOf = (vm: SimVm) => `sim:${hostId}/${vm.vmId}`
  return {
    /** Stops listening for a migrating guest if that is no longer desired. */
    stopListening(vm: SimVm): void {
      const at = `at ${addressOf(vm)}`
      if (wires.get(at) !== vm || decide(factsOf(vm, snapshots)) === 'receive') return
      wires.delete(at)
      const { migration } = vm.record
      if (migration?.phase === 'listening') note(vm, { ...migration, phase: 'cancelled' })
    },
    /** Listens until the migrating guest arrives. The guest then runs on this host with its memory. */
    receive(vm: SimVm): void {
      const { incoming } = vm.desired.spec
      if (!incoming) return
      const uri = addressOf(vm)
      const of = { migrationId: incoming.migrationId, role: 'target' as const, uri }
      const arrived = wires.get(uri)
      if (!arrived) {
        wires.set(`at ${uri}`, Object.assign(vm, { takes: unpack }))
        return note(vm, { ...of, phase: 'listening' })
      }
      wires.delete(uri)
      wires.delete(`at ${uri}`)
      Object.assign(vm, { memory: arrived.memory, identity: arrived.identity })
      vm.record = { ...vm.record, boot: vm.record.boot + 1 }
      vm.disks = vm.desired.spec.disks.map(({ volumeId, generation }) => ({
        volumeId,
        generation,
        state: 'attached',
        error: null,
      }))
      inhabit(vm)
      vm.workload = arrived.workload
      note(vm, { ...of, phase: 'switched' })
    },
    /**
     * Sends the guest to the target. A live migration takes two steps: the source reports `copying`, then stops its
     * guest. A move by stop-and-copy has a step between these, in which the guest is paused. If the move is aborted in
     * that step, the guest resumes on the source.
     */
    handOver(vm: SimVm): void {
      const known = vm.record.migration
      const wanted = vm.desired.spec.outgoing ?? (known && { migrationId: known.migrationId, uri: known.uri ?? '' })
      if (!wanted) return
      const { migrationId, uri } = wanted
      const of = { migrationId, role: 'source' as const, uri }
      if (!vm.desired.spec.outgoing) {
        vm.stopped = false
        return note(vm, { ...of, phase: 'cancelled' })
      }
      if (known?.migrationId !== migrationId) return note(vm, { ...of, phase: 'copying' })
      if (vm.desired.spec.outgoing.waits) {
        if (!known.ready) note(vm, { ...of, phase: 'copying', ready: true })
        return
      }
      const waiting = wires.get(`at ${uri}`)
      if (!waiting) {
        vm.stopped = false
        return note(vm, { ...of, phase: 'failed' })
      }
      if (stopsToMove.has(vm.desired.spec.hypervisor) && !vm.stopped) {
        vm.stopped = true
        vm.healthy = false
        return
      }
      wires.delete(`at ${uri}`)
      // Store the volumes on the target before it runs the guest, so that they are present once it reports `switched`.
      waiting.takes?.(pack(vm.desired.spec.outgoing?.volumes ?? []))
      wires.set(uri, { ...vm })
      end(vm)
      note(vm, { ...of, phase: 'switched' })
    },
  }
}
