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
  /** The record that the agent stores. */
  record: VmRecord
  stage: Stage
  /** The boot key (see the agent's `bootKey`) of the start in progress. */
  bringing: string
  workload: 'running' | 'exited'
  healthy: boolean
  /** Volumes that its guest has mounted. */
  disks: DiskObserved[]
  /** Memory content of the guest's program: moves with the VM, and is lost when the VM ends. */
  memory: string
  /** Network identity of the guest; a clone gets a new one. */
  identity: string
  /** It started from a snapshot. */
  restored?: boolean
  /** It is being moved by stop and copy: the guest is paused, which only its hypervisor knows. */
  stopped?: boolean
  /** Set while the VM waits for a migrating guest: stores the volumes that arrive. */
  takes?: (parcels: ReadonlyMap<string, SimParcel>) => void
  readonly state: VmState
}

export interface SimSnapshot {
  put: SnapshotPut
  state: SnapshotObserved['state']
  memory: string
  identity: string
  /** VMM, version and CPU; null: not known yet. */
  madeBy: string | null
  /** Volumes that the guest has mounted, and their content as the guest knows it. */
  disks: readonly SnapshotDisk[]
  contents: ReadonlyMap<string, string>
  stays: boolean
  transfer?: Transfer
  /** The transfer by which the complete snapshot arrived. */
  received?: string
}

/** The state of one simulated host that its VMs use. */
export interface SimWorld {
  readonly hostId: string
  /** Migrating guests by target address; `at <address>` is the VM that listens there. */
  readonly wires: Map<string, SimVm>
  readonly vms: Map<string, SimVm>
  readonly snapshots: ReadonlyMap<string, SimSnapshot>
  /** Last generation of each removed VM. */
  readonly gone: Map<string, number>
  readonly behaviour: ReadonlyMap<string, 'unhealthy' | 'crash' | 'finish'>
  /** The `madeBy` of snapshots of this hypervisor. */
  readonly kindOf: (hypervisor: string) => string
  /** Hypervisors without live migration. */
  readonly stopsToMove: ReadonlySet<string>
  readonly stepDisks: (vm: SimVm) => boolean
  /** Contents of this host's volumes. */
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

/** Called when the VM's process ends for any reason. */
export function end(vm: SimVm): void {
  vm.record = { ...vm.record, running: null, paused: false }
  vm.stage = null
  vm.healthy = false
  vm.disks = []
  vm.stopped = false
}

/** Records that the workload has ended for good. */
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

/** Simulates the guest's own activity. */
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

/** Boots, or starts from a snapshot, in three steps; volumes are attached before the workload starts. */
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

/** Both ends of a migration with the guest's memory: live, or by stop and copy. */
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
    /** Removes the listener, so that no guest can arrive. */
    stopListening(vm: SimVm): void {
      const at = `at ${addressOf(vm)}`
      if (wires.get(at) !== vm || decide(factsOf(vm, snapshots)) === 'receive') return
      wires.delete(at)
      const { migration } = vm.record
      if (migration?.phase === 'listening') note(vm, { ...migration, phase: 'cancelled' })
    },
    /** Listens until the guest arrives; it then runs here with its memory. */
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
     * Takes two steps: the guest stops here in the first and runs on the target in the second. By stop and copy, it
     * stands still for a step in between, and runs on here if the move ends then.
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
      // The target stores the volumes before it runs the guest, so that they are present once it reports `switched`.
      waiting.takes?.(pack(vm.desired.spec.outgoing?.volumes ?? []))
      wires.set(uri, { ...vm })
      end(vm)
      note(vm, { ...of, phase: 'switched' })
    },
  }
}
