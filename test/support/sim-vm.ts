/** How a simulated VM moves towards its wish, one step at a time. */
import type {
  DiskObserved,
  MigrationObserved,
  SnapshotObserved,
  SnapshotPut,
  VmObserved,
  VmPut,
  VmState,
} from '../../src/contract/agent.ts'

export interface SimVm {
  wish: VmPut
  state: VmState
  healthy: boolean
  /** Volumes that its guest has mounted. */
  disks: DiskObserved[]
  error: VmObserved['error']
  migration: MigrationObserved | undefined
  /** What the program in the guest has in its memory: goes where the VM goes, and ends with it. */
  memory: string
  /** What the running machine was made from. */
  madeFrom: string | undefined
  restarts: number
  /** Who it is to the network; a clone gets one of its own. */
  identity: string
}

export interface SimSnapshot {
  put: SnapshotPut
  state: SnapshotObserved['state']
  memory: string
  identity: string
}

/** Everything of one simulated host that its VMs touch. */
export interface SimWorld {
  readonly hostId: string
  readonly wires: Map<string, SimVm>
  readonly vms: Map<string, SimVm>
  readonly snapshots: ReadonlyMap<string, SimSnapshot>
  /** Generations under which VMs went. */
  readonly gone: Map<string, number>
  readonly behaviour: ReadonlyMap<string, 'unhealthy' | 'crash'>
  readonly stepDisks: (vm: SimVm) => boolean
}

export const running: ReadonlySet<VmState> = new Set(['running', 'paused'])

/** False when it is in that state already. */
export function changeState(vm: SimVm, state: VmState): boolean {
  if (vm.state === state) return false
  vm.state = state
  if (state !== 'running') vm.healthy = false
  if (state !== 'running' && state !== 'paused') vm.disks = []
  return true
}

/** The function that moves a VM one step; it answers false when the VM rests. */
export function simSteps({ hostId, wires, vms, snapshots, gone, behaviour, stepDisks }: SimWorld) {
  let boots = 0
  const boot = (vm: SimVm) => {
    boots += 1
    const { from, incoming } = vm.wish.spec
    vm.madeFrom = from?.snapshotId
    vm.restarts = vm.wish.spec.restarts
    const source = from && snapshots.get(from.snapshotId)
    if (from && source?.state !== 'ready') {
      vm.state = 'crashed'
      vm.error = { code: 'snapshot_missing', message: 'there is no such snapshot on this host' }
      return
    }
    vm.memory = source?.memory ?? `${hostId}/${boots}`
    vm.identity = source && !from.renew ? source.identity : `${vm.wish.vmId}/${boots}`
    vm.state = incoming ? 'preparing' : 'booting'
  }
  const migrationOf = (
    vm: SimVm,
    role: 'source' | 'target',
    phase: MigrationObserved['phase'],
    uri: string | null,
  ): void => {
    const migrationId =
      vm.wish.spec.outgoing?.migrationId ?? vm.wish.spec.incoming?.migrationId ?? vm.migration?.migrationId
    if (!migrationId) return
    const percent = phase === 'switched' ? 100 : phase === 'copying' ? 50 : 0
    vm.migration = {
      ...{ migrationId, role, phase, uri, percent, transferredBytes: percent * 1024, totalBytes: 102_400 },
      ...{ downtimeMs: phase === 'switched' ? 12 : null, error: null },
    }
  }
  /** One step of a VM towards its wish; false when it rests. */
  const step = (vmId: string, vm: SimVm): boolean => {
    const { want, spec, generation } = vm.wish
    if (want === 'absent') {
      vms.delete(vmId)
      gone.set(vmId, generation)
      return true
    }
    if (want === 'stopped')
      return changeState(vm, running.has(vm.state) || vm.state === 'booting' ? 'stopped' : vm.state)
    if (spec.incoming) return receive(vm)
    if (vm.migration?.role === 'source' && stepSource(vm)) return true
    if (vm.state === 'crashed') return false
    if (vm.migration?.role === 'target' && vm.migration.phase === 'switched') vm.migration = undefined
    if (spec.outgoing && !vm.migration) {
      migrationOf(vm, 'source', 'copying', spec.outgoing.uri)
      return true
    }
    const stale = running.has(vm.state) && (vm.restarts !== spec.restarts || vm.madeFrom !== spec.from?.snapshotId)
    if (stale || vm.state === 'stopped') return changeState(vm, 'preparing')
    if (vm.state === 'preparing') {
      boot(vm)
      return true
    }
    if (vm.state === 'booting') return changeState(vm, 'running')
    return settle(vm)
  }
  const settle = (vm: SimVm): boolean => {
    const { want, spec } = vm.wish
    if (vm.state === 'running' && stepDisks(vm)) return true
    // Its workload starts when it has its volumes.
    if (!vm.healthy && vm.state === 'running' && vm.disks.length < spec.disks.length) return false
    if (behaviour.get(spec.image) === 'crash' && vm.state === 'running') {
      vm.error = { code: 'exited', message: 'the workload ended with code 1' }
      return changeState(vm, 'crashed')
    }
    const paused = want === 'paused'
    if (paused !== (vm.state === 'paused')) return changeState(vm, paused ? 'paused' : 'running')
    const healthy = vm.state === 'running' && behaviour.get(spec.image) !== 'unhealthy'
    if (vm.healthy === healthy) return false
    vm.healthy = healthy
    return true
  }
  /** Listens until the guest arrives over the wire; then it runs here, with the memory it had. */
  const receive = (vm: SimVm): boolean => {
    const uri = `sim:${hostId}/${vm.wish.vmId}`
    const arrived = wires.get(uri)
    if (arrived) {
      wires.delete(uri)
      Object.assign(vm, {
        memory: arrived.memory,
        identity: arrived.identity,
        healthy: arrived.healthy,
        state: 'running',
      })
      vm.madeFrom = arrived.madeFrom
      vm.restarts = arrived.restarts
      migrationOf(vm, 'target', 'switched', uri)
      return true
    }
    if (vm.migration) return false
    migrationOf(vm, 'target', 'listening', uri)
    return true
  }
  const stepSource = (vm: SimVm): boolean => {
    if (vm.migration?.phase !== 'copying') return vm.migration?.phase === 'switched'
    if (!vm.wish.spec.outgoing) {
      vm.migration = undefined
      return true
    }
    // The last round: the guest stops here before it runs there.
    wires.set(vm.wish.spec.outgoing.uri, { ...vm })
    vm.state = 'stopped'
    vm.healthy = false
    migrationOf(vm, 'source', 'switched', vm.wish.spec.outgoing.uri)
    return true
  }
  return step
}
