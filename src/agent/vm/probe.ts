import type { VmSpec } from '../../contract/agent.ts'
import type { Driver, RunningVm } from '../hypervisor/driver.ts'
import { httpProbe, type Probe, type ProbePath, tcpProbe } from './health.ts'

/**
 * Selects the probe for a VM's health check. With QEMU's user networking every connect from the host succeeds, so the
 * guest itself checks the TCP port.
 */
export function probeOf(driver: Driver, runningVm: RunningVm, path: ProbePath, spec: VmSpec): Probe {
  if (runningVm.probe) return runningVm.probe
  if (spec.healthCheckPath !== null) return httpProbe(path, spec.healthCheckPath)
  if (driver.network !== 'user') return tcpProbe(path)
  return () => runningVm.listening(spec.port).catch(() => false)
}
