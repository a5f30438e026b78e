/** Connects VMs through taps, replaces their rules, and releases them. */
import { createHash } from 'node:crypto'
import type { FirewallObserved } from '../../contract/network.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import type { AddressBook } from './address-book.ts'
import { guestRoute6, gateway6, type NetworkPlan } from './addresses.ts'
import type { Departures } from './departures.ts'
import { makeNamespace, makeTap, removeNamespace, removeTap, type Tap } from './devices.ts'
import type { Firewall } from './firewall.ts'
import type { DevicePlace, Nic } from './net.ts'
import { macOf } from './user.ts'

/** The guests of one agent, and everything that is needed to connect them. */
export interface TapGuests {
  /** Prefix of the names of the agent's taps. */
  readonly prefix: string
  readonly book: AddressBook
  readonly firewall: Firewall
  readonly departures: Departures
  readonly hasIpv6: boolean
  readonly runs: RunCommand
  /** Returns the uid of the VM's VMM; undefined: the VMM runs as the agent's user. */
  readonly ownerOf: (vmId: string) => number | undefined
  /** Returns the `ip` command that creates a guest's device; undefined: the device is a tap. */
  readonly makeDevice: ((name: string) => string) | undefined
  /** The rules that apply now, by VM. */
  readonly guarded: Map<string, FirewallObserved>
  /** The VMs that were connected or guarded since the agent started, by tap. */
  readonly vms: Map<string, string>
  /** The taps of connected VMs, by VM. */
  readonly connected: Map<string, Tap>
  /** Promises that resolve once the rules of a VM's last `connect` are loaded, by VM. */
  readonly holding: Map<string, Promise<void>>
}

const noPlan: Omit<NetworkPlan, 'appPort'> = { ipv6: null, firewall: { version: 0, rules: [] } }

/** Returns the name of the VM's tap. */
export const tapOf = ({ prefix }: Pick<TapGuests, 'prefix'>, vmId: string): string =>
  `${prefix}${createHash('sha256').update(vmId).digest('hex').slice(0, 9)}`

/** Replaces the VM's rules with those of the plan. */
export async function guardVm(
  guests: TapGuests,
  vmId: string,
  plan: NetworkPlan,
  until: 'hold' | 'known',
): Promise<void> {
  const { guarded, hasIpv6 } = guests
  const tap = tapOf(guests, vmId)
  await guests.departures.gone(tap)
  const { version } = plan.firewall
  guests.vms.set(tap, vmId)
  const healed = guarded.get(vmId)?.healed ?? 0
  try {
    const vm = { tap, owner: guests.ownerOf(vmId), plan: hasIpv6 ? plan : { ...plan, ipv6: null } }
    await guests.firewall.put(vm, until)
    guarded.set(vmId, { version, state: 'applied', detail: null, healed })
  } catch (error) {
    guarded.set(vmId, { version, state: 'failed', detail: String(error), healed })
    throw error
  }
}

interface ConnectOptions {
  readonly vmId: string
  readonly appPort: number
  readonly plan: NetworkPlan | undefined
  readonly where: DevicePlace | undefined
}

/** Implements `Network.connect`. */
export async function connectVm(guests: TapGuests, options: ConnectOptions): Promise<Nic> {
  const { book } = guests
  const { vmId, appPort, where = 'here' } = options
  const tap = tapOf(guests, vmId)
  await guests.departures.gone(tap)
  const plan = options.plan ?? { ...noPlan, appPort }
  const ipv6 = guests.hasIpv6 ? plan.ipv6 : null
  const { index, isNew } = book.take(tap)
  const { resolver } = book.addresses
  const device = deviceOf(guests, vmId, index, ipv6)
  await makeConnection(guests, { vmId, device, plan, where, isNew })
  return nicOf(device, { resolver, appPort, ipv6 })
}

/** Implements `Network.release`. */
export async function releaseVm(guests: TapGuests, vmId: string): Promise<void> {
  const tap = tapOf(guests, vmId)
  // The VM's rules may still be loading; wait for that.
  await guests.holding.get(vmId)?.catch(() => undefined)
  guests.holding.delete(vmId)
  guests.guarded.delete(vmId)
  guests.vms.delete(tap)
  guests.connected.delete(vmId)
  guests.departures.begin(tap)
}

interface Connection {
  readonly vmId: string
  readonly device: Tap
  readonly plan: NetworkPlan
  readonly where: DevicePlace
  /** True if the VM had no addresses before this connection. */
  readonly isNew: boolean
}

/** Loads the VM's rules and creates its tap. If one of them fails, neither the tap nor its addresses remain. */
async function makeConnection(guests: TapGuests, { vmId, device, plan, where, isNew }: Connection): Promise<void> {
  const { book, runs } = guests
  // A tap without rules of its own passes no packet, so its VMM can start before the rules are loaded.
  const rules = guardVm(guests, vmId, plan, 'hold')
  rules.catch(() => undefined) // `held` reports the error
  guests.holding.set(vmId, rules)
  const made = makeDevice(device, { where, isNew, runs })
  try {
    await (where === 'ahead' ? made : bothDone(rules, made))
    guests.connected.set(vmId, device)
  } catch (error) {
    await Promise.allSettled([rules])
    if (where === 'namespace') await removeNamespace(device.tap, runs)
    if (isNew) {
      if (where === 'here' || where === 'ahead') await removeTap(device.tap, runs)
      book.free(device.tap)
    }
    throw error
  }
}

async function makeDevice(
  device: Tap,
  { where, isNew, runs }: Pick<Connection, 'where' | 'isNew'> & Pick<TapGuests, 'runs'>,
): Promise<void> {
  if (where === 'namespace') await makeNamespace(device, runs)
  else if (isNew && where !== 'apart') await makeTap(device, runs)
}

function deviceOf(guests: TapGuests, vmId: string, index: number, ipv6: NetworkPlan['ipv6']): Tap {
  const tap = tapOf(guests, vmId)
  const { host, guest } = guests.book.addresses.pair(index)
  return {
    tap,
    make: guests.makeDevice?.(tap) ?? makeTapOf(tap, guests.ownerOf(vmId)),
    host,
    guest,
    mac: macOf(vmId),
    gatewayMac: macOf(`host of ${vmId}`),
    ipv6: ipv6?.address ?? null,
    route6: ipv6 ? guestRoute6(ipv6) : null,
  }
}

function nicOf(
  { tap, mac, guest, host, gatewayMac }: Tap,
  {
    resolver,
    appPort,
    ipv6,
  }: { readonly resolver: string; readonly appPort: number; readonly ipv6: NetworkPlan['ipv6'] },
): Nic {
  const v6 = ipv6 ? { ip6: ipv6.address, gateway6, route6: guestRoute6(ipv6) } : {}
  return {
    netdev: `tap,id=n0,ifname=${tap},script=no,downscript=no`,
    mac,
    guest: { ip: guest, prefix: 31, gateway: host, gatewayMac, dns: resolver, ...v6 },
    endpoint: { host: guest, port: appPort },
    tap,
  }
}

/** Always sets an owner, because any user may open a tap without one (drivers/net/tun.c, tun_not_capable). */
const makeTapOf = (tap: string, owner: number | undefined) => `tuntap add dev ${tap} mode tap user ${owner ?? 0}`

/** Waits until both have settled, so that no error is handled while the other still runs. @throws the first error */
export async function bothDone(one: Promise<void>, other: Promise<void>): Promise<void> {
  await Promise.allSettled([one, other])
  await one
  await other
}
