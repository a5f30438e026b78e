import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { AgentConfig } from '../base/config.ts'
import { fakeNetwork } from './fake.ts'
import type { Network } from './net.ts'
import { type TapOptions, tapNetwork } from './tap.ts'
import { userNetwork } from './user.ts'

type NetworkConfig = Pick<
  AgentConfig,
  'hypervisor' | 'network' | 'dataDir' | 'subnet' | 'egressAllow' | 'egressDeny' | 'guestLimits'
>

interface NetworkEvents
  extends Pick<TapOptions, 'onHealed' | 'onRefused' | 'onUnlimited' | 'onError' | 'ownerOf' | 'runs'> {
  /** Called if the agent is root, the mode is `auto`, and taps do not work: user networking is used instead. */
  readonly onNoTaps?: (reason: string) => void
}

/** Opens the network of VMs: taps if they work (root, /dev/net/tun, ip and nft), otherwise QEMU's user networking. */
export async function openNetwork(
  config: NetworkConfig,
  { onNoTaps, ...events }: NetworkEvents = {},
): Promise<Network> {
  if (config.hypervisor === 'fake') return fakeNetwork()
  const taps = () =>
    tapNetwork({
      dataDir: resolve(config.dataDir),
      subnet: config.subnet,
      allowed: config.egressAllow,
      denied: config.egressDeny,
      limits: config.guestLimits,
      ...events,
    })
  if (config.network === 'user') return userNetwork()
  if (config.network === 'tap') return taps()
  if (process.getuid?.() !== 0) return userNetwork()
  const noTaps = (reason: string) => {
    onNoTaps?.(reason)
    return userNetwork()
  }
  if (!existsSync('/dev/net/tun')) return noTaps('there is no /dev/net/tun')
  // Root in a container may lack Linux capabilities that taps need, and a kernel may lack nftables. Only an attempt shows
  // whether taps work.
  return taps().catch((error: unknown) => noTaps(error instanceof Error ? error.message : String(error)))
}
