import type { VmSpec } from '../../contract/agent.ts'
import type { Driver, Machine } from '../hypervisor/driver.ts'
import { httpProbe, type Probe, type ProbePath, tcpProbe } from './health.ts'

/** Behind QEMU's user networking every connect succeeds, so there a bare TCP check is asked of the guest itself. */
export function probeOf(driver: Driver, machine: Machine, path: ProbePath, spec: VmSpec): Probe {
  if (machine.probe) return machine.probe
  if (spec.healthCheckPath !== null) return httpProbe(path, spec.healthCheckPath)
  if (driver.network !== 'user') return tcpProbe(path)
  return () => machine.listening(spec.port).catch(() => false)
}
