import type { VmStats } from '../../contract/agent.ts'
import type { VmStatistics } from '../hypervisor/driver.ts'

/** Converts the CPU time that a VMM has used to the percentage of the VM's vCPUs since the previous reading. */
export function cpuMeter(vmId: string, vcpus: number): (stats: VmStatistics, atMs: number) => VmStats {
  let last: { cpuSeconds: number; atMs: number } | undefined
  return ({ cpuSeconds, ramUsedBytes, rxBytes, txBytes, balloonActualMib }, atMs) => {
    const elapsed = last === undefined ? 0 : (atMs - last.atMs) / 1000
    const used = last === undefined ? 0 : cpuSeconds - last.cpuSeconds
    last = { cpuSeconds, atMs }
    const cpuUsage = elapsed > 0 ? Math.min(100, Math.max(0, (100 * used) / (elapsed * vcpus))) : 0
    const balloon = balloonActualMib === undefined ? {} : { balloonActualMib }
    return { vmId, atMs, cpuUsage, ramUsedBytes, rxBytes, txBytes, ...balloon }
  }
}
