/** The network of VMs: taps, addresses, firewall rules and limits. This file has the interfaces. */
import type { FirewallObserved, HostIpv4 } from '../../contract/network.ts'
import type { GuestNetwork } from '../guest/config-disk.ts'
import type { Endpoint } from '../base/endpoint.ts'
import type { NetworkPlan } from './addresses.ts'
import type { RefusalKind } from '../base/network-limits.ts'

/** The network connection of one VM. Plain data, stored with the VM. */
export interface Nic {
  /** QEMU's `-netdev` value, id n0. */
  readonly netdev: string
  readonly mac: string
  readonly guest: GuestNetwork
  /** Address on which the host reaches the app. */
  readonly endpoint: Endpoint
  /** The host's interface, whose counters are those of the guest; null without a tap. */
  readonly tap: string | null
}

export type DevicePlace = 'here' | 'apart' | 'ahead' | 'namespace'

/** Firewall rules of running VMs. */
export interface Guard {
  /** The host address that health checks come from; undefined: any. */
  readonly probeFrom: string | undefined
  /**
   * Replaces the VM's rules with those of the plan, in one transaction. Idempotent; also works for a VM that an earlier
   * agent connected.
   */
  guard(vmId: string, plan: NetworkPlan): Promise<void>
  /** Returns the rules in force for the VM; undefined before its first `guard`. */
  guarded(vmId: string): FirewallObserved | undefined
}

/**
 * Taps for VMMs that have their own network namespace and open their tap by name: the tap is created in that namespace,
 * and moved to the host once the VMM has opened it. The open file descriptor stays valid.
 */
export interface TapsApart {
  /**
   * Creates the tap in the empty network namespace of this process. Removes a tap that the VM has on the host from an
   * earlier start.
   */
  make(vmId: string, pid: number): Promise<void>
  /** Moves the tap to the host and sets the VM's addresses: traffic passes from then on. */
  bring(vmId: string, pid: number): Promise<void>
}

export interface Network extends Guard {
  readonly mode: 'tap' | 'user' | 'fake'
  /**
   * The IPv4 addresses that other hosts need to reach guests of this host; undefined if guests are unreachable from
   * other hosts. Changes with `adopt`.
   */
  readonly ipv4: HostIpv4 | undefined
  /** The address of the DNS resolver for guests; undefined in modes without one. */
  readonly resolver: string | undefined
  /**
   * Connects the VM. Idempotent: the VM keeps its addresses until it is released. Its rules are in force before its
   * first packet; without a plan it has no IPv6 address and the default rules.
   * @param device `here`: the tap is created on the host. `apart`: its VMM brings the tap from its own namespace (see
   * `apart`). `ahead`: resolves before the rules are in force, so that the VMM can start meanwhile; the tap passes no
   * packet until then (see `held`). `namespace`: like `here`, but the device is a veth pair into a new network
   * namespace (`Nic.namespace`)
   */
  connect(vmId: string, appPort: number, plan?: NetworkPlan, device?: DevicePlace): Promise<Nic>
  /**
   * Resolves when the rules of the last `connect` are in force; a guest must not run before. @throws the error that
   * kept the rules from being loaded
   */
  held(vmId: string): Promise<void>
  /** Undefined in modes without taps. */
  readonly apart?: TapsApart
  /** Returns the VM that has this IPv4 address. */
  vmAt(address: string): string | undefined
  /**
   * Releases the network of a VM whose process has exited. Its device and rules are removed soon afterwards; a later
   * `connect` of the same VM waits for that.
   */
  release(vmId: string): Promise<void>
  /** Removes every device and address that does not belong to a VM in `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  /** Sets the addresses (IPv4 and IPv6) of the hosts whose gateways may reach this host's apps over the mesh. */
  allowGateways(addresses: readonly string[]): Promise<void>
  /**
   * Gives new guests IPv4 addresses of this network (a /20 as CIDR). Returns false if the network is already in use, if
   * the host's own settings choose the addresses, or if a guest still has an address of the old network: the caller
   * tries again later.
   * @throws Error if the host itself has an address in that network
   */
  adopt(guests: string): Promise<boolean>
  close(): Promise<void>
}

/** Called after the rules of a VM were changed by another program and have been repaired. */
export type OnHealed = (vmId: string) => void
/** Called with the number of packets to or from a VM that a limit dropped since the last call. */
export type OnRefused = (vmId: string, kind: RefusalKind, count: number) => void
