/** Creates reports about VMs that this agent does not run. */
import { absentVm, type HypervisorName, type VmObserved } from '../../contract/agent.ts'

export const cannotTouch = (hypervisor: HypervisorName) =>
  `the VM is on this host, but this agent does not offer ${hypervisor}: restart the agent with --hypervisor ${hypervisor}`

/**
 * Reports a VM on this host whose hypervisor the agent does not offer. Because of generation 0, the control plane keeps
 * its other data about the VM.
 */
export function unseen(vmId: string, hypervisor: HypervisorName): VmObserved {
  const error = { code: 'unsupported_by_hypervisor', message: cannotTouch(hypervisor) } as const
  return { ...absentVm(vmId, 0), state: 'crashed', hypervisor, error }
}
