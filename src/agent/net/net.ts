/** The network of VMs: taps, addresses, firewall rules and limits. This file has only the interfaces. */
import type { FirewallObserved, HostIpv4 } from '../../contract/network.ts'
import type { GuestNetwork } from '../guest/config-disk.ts'
import type { Endpoint } from '../base/endpoint.ts'
import type { NetworkPlan } from './addresses.ts'
import type { RefusalKind } from '../base/network-limits.ts'

/** The network connection of one VM. Plain data, stored with the VM. */
export interface Nic {
  /** Value of QEMU's option `-netdev`, with the id n0. */
  readonly netdev: string
  readonly mac: string
  readonly guest: GuestNetwork
  /** Address at which the host reaches the app. */
  readonly endpoint: Endpoint
  /** Name of the network interface on the host whose counters are those of the guest; null without a tap. */
  readonly tap: string | null
}

export type DevicePlace = 'here' | 'apart' | 'ahead' | 'namespace'

/** Firewall rules of running VMs. */
export interface Guard {
  /** The host's address from which health checks come; undefined: any address. */
  readonly probeFrom: string | undefined
  /**
   * Replaces the VM's rules with those of the plan, in one transaction. Idempotent. Also works for a VM that an earlier
   * agent connected.
   */
  guard(vmId: string, plan: NetworkPlan): Promise<void>
  /** Returns the rules that apply to the VM now; undefined before its first `guard`. */
  guarded(vmId: string): FirewallObserved | undefined
}

/**
 * Taps for VMMs that have their own network namespace and open their tap by name. The tap is created in that namespace,
 * and moved to the host once the VMM has opened it. The VMM's open file descriptor stays valid.
 */
export interface TapsApart {
  /**
   * Creates the VM's tap in the empty network namespace of this process. If the host has a tap of the VM from an
   * earlier start, that tap is removed.
   */
  make(vmId: string, pid: number): Promise<void>
  /** Moves the VM's tap to the host and sets the VM's addresses. From then on, packets pass. */
  bring(vmId: string, pid: number): Promise<void>
}

export interface Network extends Guard {
  readonly mode: 'tap' | 'user' | 'fake'
  /**
   * The IPv4 addresses that other hosts need to reach guests of this host; undefined if other hosts cannot reach them.
   * `adopt` may change the value.
   */
  readonly ipv4: HostIpv4 | undefined
  /** The address of the guests' DNS resolver; undefined in modes without a resolver. */
  readonly resolver: string | undefined
  /**
   * Connects the VM. Idempotent: the VM keeps its addresses until it is released. Its rules apply before its first
   * packet. Without a plan, the VM has no IPv6 address, and the default rules apply.
   * @param device `here`: the tap is created on the host. `apart`: the VMM brings the tap from its own network
   * namespace (see `apart`). `ahead`: resolves before the rules are loaded, so that the VMM can start meanwhile; the
   * tap passes no packet until then (see `held`). `namespace`: like `here`, but the device is a veth pair into a new
   * network namespace with the tap's name
   */
  connect(vmId: string, appPort: number, plan?: NetworkPlan, device?: DevicePlace): Promise<Nic>
  /**
   * Resolves when the rules of the VM's last `connect` apply; its guest must not run before.
   * @throws the error because of which the rules were not loaded
   */
  held(vmId: string): Promise<void>
  /** How VMMs bring taps from their own network namespaces; undefined in modes without taps. */
  readonly apart?: TapsApart
  /** Returns the id of the VM that has this IPv4 address. */
  vmAt(address: string): string | undefined
  /**
   * Releases the network of a VM whose process has exited. The VM's device and rules are removed soon afterwards; a
   * later `connect` of the same VM waits for that.
   */
  release(vmId: string): Promise<void>
  /** Removes every device and address of this agent that does not belong to a VM in `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  /** Sets the addresses (IPv4 and IPv6) of the hosts whose gateways may reach this host's apps over the mesh. */
  allowGateways(addresses: readonly string[]): Promise<void>
  /**
   * Gives new guests IPv4 addresses of this network (a /20 as CIDR). Returns false if the network is already in use, if
   * a setting of the host chooses the addresses, or if a guest still has an address of the old network; in the last
   * case, the caller tries again later.
   * @throws Error if the host itself has an address in that network
   */
  adopt(guests: string): Promise<boolean>
  close(): Promise<void>
}

/** Called after another program has changed the rules of a VM, and the agent has repaired them. */
export type OnHealed = (vmId: string) => void
/** Called with the number of packets to or from a VM that exceeded a limit and were dropped since the last call. */
export type OnRefused = (vmId: string, kind: RefusalKind, count: number) => void
