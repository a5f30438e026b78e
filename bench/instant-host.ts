/** Simulates a host that reaches every desired state immediately, so that only the control plane is measured. */
import type { Bus } from '../src/bus/bus.ts'
import { type HostHeartbeat, type VmObserved, type VmPut, subjects } from '../src/contract/agent.ts'
import { newId } from '../src/lib/ids.ts'

export interface InstantHost {
  readonly id: string
  readonly vms: ReadonlyMap<string, VmPut>
  describe(full: boolean): HostHeartbeat
  heartbeat(full: boolean): Promise<void>
}

export async function instantHost(bus: Bus, name: string, vcpus: number): Promise<InstantHost> {
  const id = newId()
  const vms = new Map<string, VmPut>()
  const observed = (vmId: string): VmObserved => {
    const vm = vms.get(vmId)
    const running = vm?.want === 'running'
    return {
      vmId,
      generation: vm?.generation ?? 0,
      state: running ? 'running' : 'absent',
      healthy: running,
      endpoint: running ? { host: '127.0.0.1', port: 8080 } : null,
      imageDigest: null,
      hypervisor: 'fake',
      error: null,
      exitCode: null,
      restartCount: 0,
      startedAtMs: null,
      steps: [],
    }
  }
  const put = (desired: VmPut): VmObserved => {
    vms.set(desired.vmId, desired)
    const now = observed(desired.vmId)
    if (desired.want === 'absent') vms.delete(desired.vmId)
    return { ...now, generation: desired.generation }
  }
  await bus.serve(subjects.hostIn(id, 'vm.put'), data => put(data as VmPut))
  await bus.serve(subjects.hostIn(id, 'vm.get'), data => observed((data as { vmId: string }).vmId))
  await bus.serve(subjects.hostIn(id, 'ping'), () => ({ incarnation: 'instant' }))
  const describe = (full: boolean): HostHeartbeat => ({
    hostId: id,
    name,
    incarnation: 'instant',
    version: '0',
    arch: 'x64',
    network: 'fake',
    vcpus,
    memoryMib: vcpus * 512,
    diskMib: vcpus * 1024,
    hypervisors: [
      {
        name: 'fake',
        available: true,
        detail: 'instant',
        capabilities: { pause: true, snapshot: true, hotplugDisk: true, balloon: true, migrate: 'live' },
      },
    ],
    vms: full ? [...vms.keys()].map(observed) : null,
    stats: full
      ? []
      : [...vms.keys()].map(vmId => ({ vmId, atMs: 0, cpuUsage: 5, ramUsedBytes: 2 ** 27, rxBytes: 1, txBytes: 1 })),
  })
  return {
    id,
    vms,
    describe,
    heartbeat: async full => void (await bus.publish(subjects.heartbeat(id), describe(full))),
  }
}
