import { createHash } from 'node:crypto'
import type { DiskSpec, VmObserved, VmPut, VmSpec } from '../../contract/agent.ts'
import type { WantedHypervisor } from '../scheduler/place.ts'
import { type BuiltRegistries, inRegistry, ownRegistryHost, registryOf } from './built-image.ts'
import type { ObservedVm } from './observed-store.ts'
import type { Vm } from './store.ts'

/** Names of hypervisors by the integers that the API uses for them. */
export const hypervisorNumbers = {
  0: undefined,
  1: 'firecracker',
  2: 'cloud-hypervisor',
  3: 'qemu',
  4: 'gvisor',
  5: 'vm',
  9: 'fake',
} as const satisfies Record<number, WantedHypervisor | undefined>

export function hypervisorName(stored: number): WantedHypervisor | undefined {
  return Object.entries(hypervisorNumbers).find(([n]) => Number(n) === stored)?.[1]
}

export function hypervisorNumber(name: string | undefined): number | undefined {
  if (name === undefined) return 0
  const found = Object.entries(hypervisorNumbers).find(([, known]) => known === name)
  return found ? Number(found[0]) : undefined
}

/**
 * Returns the VM's IPv6 address in its project's /64. The other 64 bits are a hash of the VM's id, so the address is
 * stable and needs no allocator. A collision is as unlikely as two equal random 64-bit numbers; a unique index catches
 * it.
 * @param prefix e.g. `fd12:3456:789a:1::/64`
 */
export function deriveIpv6(prefix: string, vmId: string): string {
  const groups = prefix
    .replace(/\/\d+$/, '')
    .replace(/::$/, '')
    .split(':')
  while (groups.length < 4) groups.push('0')
  const digest = createHash('sha256').update(vmId).digest()
  const low = [0, 2, 4, 6].map(at => digest.readUInt16BE(at).toString(16))
  return [...groups.slice(0, 4), ...low].join(':')
}

/** Builds the VM's full desired state, which is sent to its host. */
export function wanted(
  vm: Vm & { readonly hostId: string },
  settings: { readonly maxRestarts: number; readonly registry: string; readonly registryUrl: string },
  env: Readonly<Record<string, string>>,
  disks: readonly DiskSpec[] = [],
  clones: readonly { readonly volumeId: string; readonly of: string }[] = [],
): VmPut {
  if (!vm.hypervisor) throw new Error(`BUG: vm ${vm.id} has a host but no hypervisor`)
  return {
    vmId: vm.id,
    generation: vm.generation,
    want: vm.outgoing?.halts && vm.want !== 'absent' ? 'stopped' : vm.want,
    ...(vm.traceparent ? { traceparent: vm.traceparent } : {}),
    spec: {
      projectId: vm.projectId,
      appId: vm.appId,
      deploymentId: vm.deploymentId,
      hostname: vm.appName,
      hypervisor: vm.hypervisor,
      image: vm.image,
      ...accessTo(vm, settings),
      vcpus: vm.vcpus,
      memoryMib: vm.memoryMib,
      diskMib: vm.diskMib,
      env: { ...env, PORT: String(vm.port) },
      ...(vm.command.length > 0 ? { command: [...vm.command] } : {}),
      ...(vm.arguments.length > 0 ? { arguments: [...vm.arguments] } : {}),
      ...(vm.appKind === 'worker' ? { unprobed: true } : {}),
      port: vm.port,
      // Apps that the platform runs, such as databases, have no health check path, because they do not speak HTTP.
      healthCheckPath: vm.healthCheckPath === '' || vm.appKind === 'worker' ? null : vm.healthCheckPath,
      ipv6Address: vm.ipv6Address,
      ...(vm.run ? { command: [...(vm.run.command ?? waitingCommand)] } : {}),
      maxRestarts: vm.run ? 0 : (vm.restart?.max_restarts ?? settings.maxRestarts),
      ...restartOnOf(vm),
      restarts: vm.restarts,
      balloonTargetMib: vm.balloonTargetMib,
      disks: [...disks],
      firewall: vm.firewall,
      ...(vm.outgoing && !vm.outgoing.halts ? { outgoing: outgoingOf(vm.outgoing) } : {}),
      ...(vm.fromSnapshotId
        ? { from: { snapshotId: vm.fromSnapshotId, renew: vm.fromRenew, alone: !vm.fromRequired, ...clonesOf(clones) } }
        : {}),
    },
  }
}

/**
 * Chooses the credentials for pulling the VM's image: the operator's for a built image in the operator's registry;
 * otherwise those that the control plane has for the image's registry, if any.
 */
function accessTo({ image, registryHosts }: Vm, config: BuiltRegistries): Pick<VmSpec, 'builtImage' | 'signIn'> {
  if (inRegistry(image, config.registry) !== undefined) return { builtImage: true }
  const host = registryOf(image)
  if (host === undefined) return {}
  return ownRegistryHost(config) === host || registryHosts.includes(host) ? { signIn: true } : {}
}

const clonesOf = <T>(clones: readonly T[]) => (clones.length > 0 ? { clones: [...clones] } : {})

const outgoingOf = ({
  migrationId,
  uri,
  waits,
  volumes,
}: NonNullable<Vm['outgoing']>): NonNullable<VmSpec['outgoing']> => ({
  migrationId,
  uri: uri ?? '',
  ...(waits ? { waits } : {}),
  ...(volumes ? { volumes: volumes.map(one => ({ ...one, snapshots: [...one.snapshots] })) } : {}),
})

/**
 * Returns when the agent restarts the VM's program. The program of a run is never restarted, whatever the app's
 * setting.
 */
function restartOnOf({ run, restart }: Vm): Pick<VmSpec, 'restartOn'> {
  if (run || !restart || restart.policy === 'always') return {}
  return { restartOn: restart.policy === 'never' ? 'never' : 'failure' }
}

/**
 * Command of a VM that only waits for sessions. The guest's init implements it (guest/workload.c), because the image
 * may contain no suitable program.
 */
const waitingCommand = ['/.mote/wait'] as const

/** Returns whether the host has reached the current desired state. */
export function reached(
  vm: Pick<Vm, 'want' | 'generation' | 'run'>,
  observed: Pick<VmObserved, 'generation' | 'state' | 'healthy'>,
): boolean {
  if (observed.generation < vm.generation) return false
  switch (vm.want) {
    case 'running':
      // The program of a run need not listen on a port, so it need not be healthy. `crashed` is also the state after
      // the program has ended.
      if (vm.run) return observed.state === 'running' || observed.state === 'crashed'
      return observed.state === 'running' && observed.healthy
    case 'paused':
      return observed.state === 'paused'
    case 'stopped':
      return observed.state === 'stopped'
    case 'absent':
      return observed.state === 'absent'
  }
}

/** Returns whether an observation differs from the recorded one in a field on which workflows act. */
export function isNews(known: Omit<ObservedVm, 'id' | 'generation'>, observed: VmObserved): boolean {
  return (
    observed.generation > known.observedGeneration ||
    (observed.generation === known.observedGeneration &&
      (observed.state !== known.observedState ||
        observed.healthy !== known.healthy ||
        (observed.endpoint?.port ?? null) !== known.endpointPort ||
        observed.restartCount !== known.restartCount))
  )
}
