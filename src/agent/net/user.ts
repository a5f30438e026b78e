import { createHash } from 'node:crypto'
import { createServer } from 'node:net'
import type { FirewallObserved } from '../../contract/network.ts'
import type { Network, Nic } from './net.ts'

/**
 * QEMU's user networking, for agents without root. A free port of 127.0.0.1 is forwarded to the app's port.
 * `restrict=on` also blocks egress; without it, a guest reaches the host's loopback at 10.0.2.2.
 */
export function userNetwork(): Network {
  return {
    mode: 'user',
    async connect(vmId, appPort): Promise<Nic> {
      const port = await freePort()
      return {
        netdev: `user,id=n0,restrict=on,hostfwd=tcp:127.0.0.1:${port}-10.0.2.15:${appPort}`,
        mac: macOf(vmId),
        guest: { ip: '10.0.2.15', prefix: 24, gateway: '10.0.2.2' },
        endpoint: { host: '127.0.0.1', port },
        tap: null,
      }
    },
    release: async () => undefined,
    reclaim: async () => undefined,
    ...withoutFirewall(
      'the host runs without root (QEMU user networking): the app is reached by the gateway alone, on its own port, ' +
        'whatever the rules say; nothing leaves the VM, and it has no private network',
    ),
  }
}

/**
 * Implements the firewall for networks in which the agent cannot filter packets. Acknowledges every version of the
 * rules, with the reason why they are not enforced.
 */
export function withoutFirewall(
  reason: string,
): Pick<
  Network,
  'probeFrom' | 'ipv4' | 'resolver' | 'vmAt' | 'held' | 'guard' | 'guarded' | 'allowGateways' | 'adopt' | 'close'
> {
  const observed = new Map<string, FirewallObserved>()
  return {
    probeFrom: undefined,
    ipv4: undefined,
    resolver: undefined,
    vmAt: () => undefined,
    held: async () => undefined,
    guard: async (vmId, { firewall }) => {
      observed.set(vmId, { version: firewall.version, state: 'unenforced', detail: reason, healed: 0 })
    },
    guarded: vmId => observed.get(vmId),
    allowGateways: async () => undefined,
    adopt: async () => false,
    close: async () => undefined,
  }
}

/** Returns a locally administered MAC address, which is always the same for this VM. */
export function macOf(vmId: string): string {
  const hash = createHash('sha256').update(vmId).digest()
  return ['52', '54', ...[...hash.subarray(0, 4)].map(byte => byte.toString(16).padStart(2, '0'))].join(':')
}

/**
 * Returns a port that is free now. If another process takes the port first, QEMU refuses to start, and the boot is
 * retried with another port.
 */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => {
        if (typeof address === 'object' && address) resolve(address.port)
        else reject(new Error('no free port'))
      })
    })
  })
}
