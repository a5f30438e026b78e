import { networkInterfaces } from 'node:os'
import { firstGuests } from '../../contract/network.ts'
import { contains, parseCidr } from '../../lib/cidr.ts'
import { run } from '../../lib/exec.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { type AddressBook, addressBook } from './address-book.ts'
import { networkOf, sliceOf } from './addresses.ts'
import {
  addLoopback,
  enableForwarding,
  namespaceNames,
  removeNamespace,
  removeLoopback,
  removeTap,
  removeTaps,
  tapAddresses,
  tapNames,
} from './devices.ts'
import { createDepartures } from './departures.ts'
import { Firewall } from './firewall.ts'
import { defaultLimits, type GuestLimits } from '../base/network-limits.ts'
import type { Network, OnHealed, OnRefused } from './net.ts'
import { growthOf } from './refusals.ts'
import { type TableInput, tapPrefix } from './rules.ts'
import { claimSlot, releaseSlot } from './slot.ts'
import { bothDone, connectVm, guardVm, releaseVm, type TapGuests, tapOf } from './tap-guests.ts'
import { tapsApart } from './taps-apart.ts'

/** Number of the device group for taps that are being removed, plus the slot. No other device is in this group. */
const leavingGroup = 6_740_000

/** Interval between checks of the rules; changes by other programs last at most this long. */
const healEveryMs = 10_000

export interface TapOptions {
  readonly dataDir: string
  /**
   * IPv4 /16 for guests, which the agents of one host share. Null: `firstGuests`, until the control plane assigns other
   * addresses (`adopt`).
   */
  readonly subnet: string | null
  /** Private networks that guests may reach, and networks that no guest may reach (see `TableInput`). */
  readonly allowed?: readonly string[]
  readonly denied?: readonly string[]
  /** Limits of each guest's network use. */
  readonly limits?: GuestLimits
  readonly onHealed?: OnHealed
  readonly onRefused?: OnRefused
  /** Called when the kernel does not support `limits`; guests then have none. */
  readonly onUnlimited?: (reason: unknown) => void
  readonly onError?: (error: unknown) => void
  readonly healEveryMs?: number
  /** Returns the uid of the VM's VMM: only this user may open the VM's tap. Undefined: the agent's own user. */
  readonly ownerOf?: (vmId: string) => number | undefined
  /**
   * Returns the `ip` command that creates a guest's device; default: a tap. Tests create veth pairs into network
   * namespaces, which stand in for guests.
   */
  readonly makeDevice?: (name: string) => string
  /** Runs the nft and ip commands for single VMs. */
  readonly runs?: RunCommand
}

/**
 * Opens the network with taps. Each VM has its own tap, with a routed IPv4 /31 and the VM's IPv6 /128. There is no
 * bridge, so guests share no link. The kernel stores each VM's IPv4 address on its tap.
 * @throws Error without root, or if nft cannot load the rules
 */
export async function tapNetwork(options: TapOptions): Promise<Network> {
  const { runs = run } = options
  const { slot, isNew } = await claimSlot(options.dataDir)
  const guests = await openGuests({ ...options, runs, slot, isNewSlot: isNew })
  const { book, departures, firewall, guarded, holding, prefix, vms } = guests
  const mutex = createKeyedMutex()
  const stopHealing = startHealing(guests, options)
  return {
    mode: 'tap',
    get probeFrom() {
      return book.addresses.probe
    },
    get ipv4() {
      return { guests: book.addresses.guests, gateway: book.addresses.resolver }
    },
    get resolver() {
      return book.addresses.resolver
    },
    adopt: range => mutex.take('addresses', () => adopt(guests, range, options, slot)),
    guard: (vmId, plan) => guardVm(guests, vmId, plan, 'known'),
    guarded: vmId => guarded.get(vmId),
    vmAt(address) {
      const tap = book.tapAt(address)
      return tap === undefined ? undefined : vms.get(tap)
    },
    apart: tapsApart(guests.connected),
    connect: (vmId, appPort, plan, where) => connectVm(guests, { vmId, appPort, plan, where }),
    held: async vmId => holding.get(vmId),
    release: vmId => releaseVm(guests, vmId),
    reclaim: keep => reclaimTaps(guests, keep),
    allowGateways: addresses => firewall.setGateways(addresses),
    /** Removes the rules, addresses and slot of the agent, but only if it has no guest left. */
    async close() {
      stopHealing()
      await departures.close()
      if (tapNames(prefix).length > 0) return
      await firewall.close()
      await removeLoopback(ownAddresses(book.addresses))
      await releaseSlot(slot)
    },
  }
}

interface OpenOptions extends TapOptions {
  readonly runs: RunCommand
  /** Number of this agent among all agents of the host. */
  readonly slot: number
  /**
   * True if the agent had no slot before and has claimed a free one. An earlier owner of the slot may have left taps
   * and rules behind.
   */
  readonly isNewSlot: boolean
}

/**
 * Loads the rules that all guests share. Guests that were connected before a restart of the agent keep their taps,
 * addresses and rules.
 */
async function openGuests(options: OpenOptions): Promise<TapGuests> {
  const { runs, slot, isNewSlot } = options
  const prefix = tapPrefix(slot)
  // The slot's previous agent is gone. Remove its taps, whose addresses this agent will use.
  if (isNewSlot) {
    await removeTaps(tapNames(prefix), leavingGroup + slot, runs)
    for (const name of namespaceNames(prefix)) await removeNamespace(name, runs)
  }
  const book = addressBook(await guestsAtStart(options.subnet, slot, runs))
  const firewall = new Firewall(tableOf(options, slot, book), runs)
  const unlimited = await firewall.open()
  if (unlimited) options.onUnlimited?.(unlimited)
  if (isNewSlot) await firewall.keepOnly(new Set(), new Set())
  const hasIpv6 = await enableForwarding()
  await addLoopback(ownAddresses(book.addresses), runs)
  const departures = createDepartures({
    remove: async taps => {
      await bothDone(removeTaps(taps, leavingGroup + slot, runs), firewall.remove(taps))
      for (const tap of taps) await removeNamespace(tap, runs)
    },
    onGone: tap => book.free(tap),
    onError: error => options.onError?.(error),
  })
  return {
    prefix,
    book,
    firewall,
    departures,
    hasIpv6,
    runs,
    ownerOf: vmId => options.ownerOf?.(vmId),
    makeDevice: options.makeDevice,
    guarded: new Map(),
    vms: new Map(),
    connected: new Map(),
    holding: new Map(),
  }
}

const tableOf = ({ allowed, denied, limits }: TapOptions, slot: number, book: AddressBook): TableInput => ({
  ...book.addresses,
  slot,
  allowed: allowed ?? [],
  denied: denied ?? [],
  limits: limits ?? defaultLimits,
})

type HealingOptions = Pick<TapOptions, 'healEveryMs' | 'onError' | 'onHealed' | 'onRefused'>

/** Repairs rules and reports refused packets at a fixed interval. Returns a function that stops this. */
function startHealing(guests: TapGuests, options: HealingOptions): () => void {
  const growth = growthOf()
  let isHealing = false
  const timer = setInterval(() => {
    if (isHealing) return // the previous check is still running
    isHealing = true
    heal(guests, growth, options)
      .catch((error: unknown) => options.onError?.(error))
      .finally(() => (isHealing = false))
  }, options.healEveryMs ?? healEveryMs)
  timer.unref()
  return () => clearInterval(timer)
}

async function heal(
  guests: TapGuests,
  growth: ReturnType<typeof growthOf>,
  { onHealed, onRefused }: HealingOptions,
): Promise<void> {
  const { firewall, guarded, vms } = guests
  const taps = new Set(await firewall.heal())
  for (const { tap, kind, count } of growth(firewall.refused())) {
    const vmId = vms.get(tap)
    if (vmId !== undefined) onRefused?.(vmId, kind, count)
  }
  for (const [vmId, observed] of guarded)
    if (taps.has(tapOf(guests, vmId))) {
      guarded.set(vmId, { ...observed, healed: observed.healed + 1 })
      onHealed?.(vmId)
    }
}

/** Implements `Network.adopt`. */
async function adopt(guests: TapGuests, range: string, options: TapOptions, slot: number): Promise<boolean> {
  const { book, runs } = guests
  const before = book.addresses
  if (options.subnet !== null || before.guests === range) return false
  await guests.departures.settled()
  refuseTaken(range)
  if (!book.change(range)) return false
  await addLoopback(ownAddresses(book.addresses), runs)
  await guests.firewall.change(tableOf(options, slot, book))
  await removeLoopback(ownAddresses(before))
  return true
}

/** Implements `Network.reclaim`. */
async function reclaimTaps(guests: TapGuests, keep: ReadonlySet<string>): Promise<void> {
  const { book, prefix } = guests
  const kept = new Set([...keep].map(vmId => tapOf(guests, vmId)))
  for (const tap of tapNames(prefix)) if (!kept.has(tap)) await removeTap(tap)
  for (const name of namespaceNames(prefix)) if (!kept.has(name)) await removeNamespace(name, guests.runs)
  // After a crash, a VM may have rules but no tap.
  await guests.firewall.keepOnly(kept, new Set([...keep].flatMap(vmId => guests.ownerOf(vmId) ?? [])))
  for (const { tap, address } of await tapAddresses(prefix, guests.runs))
    if (!book.restore(tap, address)) await removeTap(tap) // the tap is half-made, or has an address of another range
}

const ownAddresses = ({ probe, resolver }: { readonly probe: string; readonly resolver: string }) => [probe, resolver]

/**
 * Returns the address range of the guests that still run: they keep their addresses, even if the control plane has
 * assigned another range since.
 */
async function guestsAtStart(subnet: string | null, slot: number, runs: RunCommand): Promise<string> {
  if (subnet !== null) return sliceOf(subnet, slot)
  const addresses = (await tapAddresses(tapPrefix(slot), runs)).map(({ address }) => networkOf(address))
  return addresses.find(network => network !== undefined) ?? sliceOf(firstGuests, slot)
}

/** Checks that no device of the host has an address in this network: it could no longer be reached. @throws Error */
function refuseTaken(guests: string): void {
  const network = parseCidr(guests)
  for (const [name, addresses] of Object.entries(networkInterfaces()))
    for (const { cidr } of addresses ?? []) {
      const taken = parseCidr(cidr ?? '')
      if (name === 'lo' || !network || !taken || !(contains(network, taken) || contains(taken, network))) continue
      throw new Error(
        `the control plane assigned ${guests} to the guests of this host, which overlaps with ${name} (${cidr}): set MOTE_GUEST_SUBNET here, or MOTE_GUEST_NETWORK of the control plane`,
      )
    }
}
