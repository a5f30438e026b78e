import type { GuestNetwork } from '../guest/config-disk.ts'
import type { Endpoint } from '../hypervisor/driver.ts'

/** How one VM is connected. Plain data: it is stored with the VM. */
export interface Nic {
  /** QEMU's `-netdev` value, id n0. */
  readonly netdev: string
  readonly mac: string
  readonly guest: GuestNetwork
  /** Where the host reaches the app. */
  readonly endpoint: Endpoint
  /** The host's interface, whose counters are the guest's; null where there is none. */
  readonly tap: string | null
}

export interface Network {
  readonly mode: 'tap' | 'user'
  /** Idempotent for one VM: the same VM gets the same addresses as long as it is not released. */
  connect(vmId: string, appPort: number): Promise<Nic>
  release(vmId: string): Promise<void>
  /** Removes every device and address that belongs to none of `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  close(): Promise<void>
}
