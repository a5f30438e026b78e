import type { FirewallObserved, HostIpv4 } from '../../contract/network.ts'
import type { GuestNetwork } from '../guest/config-disk.ts'
import type { Endpoint } from '../base/endpoint.ts'
import type { NetworkPlan } from './addresses.ts'
import type { RefusalKind } from '../base/network-limits.ts'

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

/** The rules of running VMs. */
export interface Guard {
  /** The host's own address that its health checks come from; undefined: any. */
  readonly probeFrom: string | undefined
  /** Makes the VM's rules what the plan says, all in one step. Idempotent; also for a VM that an earlier agent connected. */
  guard(vmId: string, plan: NetworkPlan): Promise<void>
  /** What holds for the VM now; undefined before its first `guard`. */
  guarded(vmId: string): FirewallObserved | undefined
}

/**
 * Taps of VMMs that have a network namespace of their own, and open their tap by its name: it is made in there, and brought
 * to the host when it is open. What is open stays so.
 */
export interface TapsApart {
  /** In the empty network namespace of this process. One that the VM has on the host, of an earlier start, goes. */
  make(vmId: string, pid: number): Promise<void>
  /** To the host, with the VM's addresses: its traffic passes from here on. */
  bring(vmId: string, pid: number): Promise<void>
}

export interface Network extends Guard {
  readonly mode: 'tap' | 'user' | 'fake'
  /** What other hosts have to know to reach guests here; undefined where nobody can. Changes with `adopt`. */
  readonly ipv4: HostIpv4 | undefined
  /** Where guests may ask for names; undefined where they have no such network. */
  readonly resolver: string | undefined
  /**
   * Idempotent for one VM: the same VM gets the same addresses as long as it is not released. Its rules hold before its
   * first packet; without a plan it has no IPv6 address and the default rules.
   * @param device `apart`: its VMM brings it, by `apart`. `ahead`: it is here before its rules hold, and lets nothing through
   * until then: its VMM starts meanwhile (`held`)
   */
  connect(vmId: string, appPort: number, plan?: NetworkPlan, device?: 'here' | 'apart' | 'ahead'): Promise<Nic>
  /** Resolves when the rules of the last `connect` hold: no guest should run before. @throws what kept them from being loaded */
  held(vmId: string): Promise<void>
  /** Undefined where there are no taps. */
  readonly apart?: TapsApart
  /** The VM that has this IPv4 address. */
  vmAt(address: string): string | undefined
  /** It has no process any more. Its device and rules go soon; a `connect` of the same VM waits for that. */
  release(vmId: string): Promise<void>
  /** Removes every device and address that belongs to none of `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  /** Addresses (IPv4 and IPv6) of the hosts whose gateways may reach apps here, over the mesh. */
  allowGateways(addresses: readonly string[]): Promise<void>
  /**
   * Gives guests IPv4 addresses of this network (/20, CIDR) from now on. False: they have them, they are given by the
   * host's own settings, or a guest still has one of the old: to be asked again.
   * @throws Error where the host itself is in that network
   */
  adopt(guests: string): Promise<boolean>
  close(): Promise<void>
}

/** Told when the rules of a VM had been changed by somebody else and were put right. */
export type OnHealed = (vmId: string) => void
/** Told how many packets of a VM, or for it, were dropped since the last time because it is at a limit. */
export type OnRefused = (vmId: string, kind: RefusalKind, count: number) => void
