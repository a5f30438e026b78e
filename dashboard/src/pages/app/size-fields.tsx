import type { DeployAppRequest } from '@mote/client'
import { Choice, type Values } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'

/** Sizes that a deploy may request (docs/contract.md). */
const vcpuCounts = [1, 2, 3, 4] as const
const memorySizesMib = [512, 1024, 2048, 4096] as const
const hypervisors = ['firecracker', 'cloud-hypervisor', 'gvisor', 'qemu', 'vm', 'fake'] as const

/** Form fields for vCPUs, memory and hypervisor. @param vcpus and memoryMib: size of the running deployment */
export function SizeFields({
  vcpus = 1,
  memoryMib = 512,
}: {
  readonly vcpus?: number | undefined
  readonly memoryMib?: number | undefined
}) {
  return (
    <div className="grid gap-3 sm:grid-cols-3">
      <Choice label="vCPUs" name="vcpus" defaultValue={vcpus}>
        {vcpuCounts.map(count => (
          <option key={count}>{count}</option>
        ))}
      </Choice>
      <Choice label="Memory" name="memory_mib" defaultValue={memoryMib}>
        {memorySizesMib.map(size => (
          <option key={size} value={size}>
            {mib(size)}
          </option>
        ))}
      </Choice>
      <Choice label="Hypervisor" name="hypervisor" defaultValue="">
        <option value="">Best available</option>
        {hypervisors.map(name => (
          <option key={name}>{name}</option>
        ))}
      </Choice>
    </div>
  )
}

export function sizeOf(values: Values): Pick<DeployAppRequest, 'vcpus' | 'memory_mib' | 'hypervisor'> {
  return {
    vcpus: vcpuCounts.find(count => count === values.number('vcpus')),
    memory_mib: memorySizesMib.find(size => size === values.number('memory_mib')),
    hypervisor: hypervisors.find(name => name === values.text('hypervisor')),
  }
}
