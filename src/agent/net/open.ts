import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { AgentConfig } from '../config.ts'
import { fakeNetwork } from './fake.ts'
import type { Network } from './net.ts'
import { type TapOptions, tapNetwork } from './tap.ts'
import { userNetwork } from './user.ts'

type NetworkConfig = Pick<AgentConfig, 'hypervisor' | 'network' | 'dataDir' | 'subnet' | 'egressAllow' | 'egressDeny'>

/** Taps where they work (root, /dev/net/tun, ip and nft), QEMU's user networking otherwise. */
export async function openNetwork(
  config: NetworkConfig,
  events: Pick<TapOptions, 'onHealed' | 'onError' | 'ownerOf' | 'runs'> = {},
): Promise<Network> {
  if (config.hypervisor === 'fake') return fakeNetwork()
  const taps = () =>
    tapNetwork({
      ...{ dataDir: resolve(config.dataDir), subnet: config.subnet },
      ...{ allowed: config.egressAllow, denied: config.egressDeny, ...events },
    })
  if (config.network === 'user') return userNetwork()
  if (config.network === 'tap') return taps()
  if (process.getuid?.() !== 0 || !existsSync('/dev/net/tun')) return userNetwork()
  // Root in a container may lack the capability: that is the only way to find out.
  return taps().catch(() => userNetwork())
}
