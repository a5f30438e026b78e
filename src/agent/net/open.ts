import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { AgentConfig } from '../config.ts'
import type { Network } from './net.ts'
import { tapNetwork } from './tap.ts'
import { userNetwork } from './user.ts'

/** Taps where they work (root, /dev/net/tun, ip and nft), QEMU's user networking otherwise. */
export async function openNetwork(config: Pick<AgentConfig, 'network' | 'dataDir' | 'subnet'>): Promise<Network> {
  if (config.network === 'user') return userNetwork()
  if (config.network === 'tap') return tapNetwork(resolve(config.dataDir), config.subnet)
  if (process.getuid?.() !== 0 || !existsSync('/dev/net/tun')) return userNetwork()
  // Root in a container may lack the capability: that is the only way to find out.
  return tapNetwork(resolve(config.dataDir), config.subnet).catch(() => userNetwork())
}
