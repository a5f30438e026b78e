import type { VmSpec } from '../../contract/agent.ts'
import type { Driver, Endpoint, Machine } from '../hypervisor/driver.ts'
import { httpProbe, type Probe, tcpProbe } from './health.ts'

/** Behind QEMU's user networking every connect succeeds, so there a bare TCP check is asked of the guest itself. */
export function probeOf(driver: Driver, machine: Machine, endpoint: Endpoint, spec: VmSpec): Probe {
  if (machine.probe) return machine.probe
  if (spec.healthCheckPath !== null) return httpProbe(endpoint, spec.healthCheckPath)
  if (driver.network !== 'user') return tcpProbe(endpoint)
  return () => machine.listening(spec.port).catch(() => false)
}
