import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { run } from '../../../src/lib/exec.ts'
import { bringTap, makeTapIn, removeTap, type Tap } from '../../../src/agent/net/devices.ts'

export interface TapOfVmm extends AsyncDisposable {
  /**
   * Moves the tap to the host's namespace and asserts that the VMM still has it open, and that it is gone from the
   * VMM's namespace.
   */
  bring(): Promise<void>
}

/** Creates a tap in the network namespace of a VMM, as the driver does. @param owner id of the user that may open it */
export async function tapIn(pid: number, name: string, owner: number): Promise<TapOfVmm> {
  const device: Tap = {
    tap: name,
    make: `tuntap add dev ${name} mode tap user ${owner}`,
    ipv6: null,
    host: '192.0.2.2',
    guest: '192.0.2.3',
    mac: '52:54:00:12:34:56',
    gatewayMac: '52:54:00:12:34:57',
  }
  await makeTapIn(pid, device)
  return {
    async bring() {
      await bringTap(pid, device)
      expect(readFileSync(`/sys/class/net/${name}/carrier`, 'utf8').trim(), 'held open').toBe('1')
      expect(await devicesOf(pid)).toMatchObject([{ ifname: 'lo', operstate: 'DOWN', addr_info: [] }])
    },
    [Symbol.asyncDispose]: () => removeTap(name),
  }
}

/** Returns the network devices in a process's network namespace, as reported by `ip -json address`. */
export async function devicesOf(pid: number): Promise<unknown> {
  return JSON.parse(await run('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', '-json', 'address']))
}
