import { bringTap, makeTapIn, removeTap, type Tap, tapNames } from './devices.ts'
import type { TapsApart } from './net.ts'

/** Creates the `apart` of a network. @param connected the taps of connected VMs, by VM */
export function tapsApart(connected: ReadonlyMap<string, Tap>): TapsApart {
  const deviceOf = (vmId: string): Tap => {
    const device = connected.get(vmId)
    if (device) return device
    throw new Error(`BUG: ${vmId} is not connected`)
  }
  return {
    async make(vmId, pid) {
      const device = deviceOf(vmId)
      if (tapNames(device.tap).length > 0) await removeTap(device.tap)
      await makeTapIn(pid, device)
    },
    bring: (vmId, pid) => bringTap(pid, deviceOf(vmId)),
  }
}
