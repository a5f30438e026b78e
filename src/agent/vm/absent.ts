/** What is said of VMs that have no actor here. */
import type { HypervisorName, VmObserved } from '../../contract/agent.ts'

export const cannotTouch = (hypervisor: HypervisorName) =>
  `the VM is here, and this agent does not offer ${hypervisor}: start the agent with it (--hypervisor) again`

/** It is here, and that is all that is known: under generation 0 it is no news of the VM. */
export function unseen(vmId: string, hypervisor: HypervisorName): VmObserved {
  const error = { code: 'unsupported_by_hypervisor', message: cannotTouch(hypervisor) } as const
  return { ...absent(vmId, 0), state: 'crashed', hypervisor, error }
}

export function absent(vmId: string, generation: number): VmObserved {
  return {
    vmId,
    generation,
    state: 'absent',
    healthy: false,
    endpoint: null,
    imageDigest: null,
    hypervisor: 'qemu',
    error: null,
    exitCode: null,
    restartCount: 0,
    startedAtMs: null,
    steps: [],
  }
}
