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

/** Device group for taps that are being removed, plus the slot. `ip` assigns this group to no other device. */
const leavingGroup = 6_740_000

/** Interval between checks of the rules, and so the longest time that a foreign change lasts. */
const healEveryMs = 10_000

export interface TapOptions {
  readonly dataDir: string
  /**
   * IPv4 /16 for guests, which the agents of one host share; null: `firstGuests`, until the control plane assigns
   * others (`adopt`).
   */
  readonly subnet: string | null
  /** See `TableInput`. */
  readonly allowed?: readonly string[]
  readonly denied?: readonly string[]
  /** Limits of each guest. */
  readonly limits?: GuestLimits
  readonly onHealed?: OnHealed
  readonly onRefused?: OnRefused
  /** Called when the kernel does not support `limits`; guests then run without them. */
  readonly onUnlimited?: (reason: unknown) => void
  readonly onError?: (error: unknown) => void
  readonly healEveryMs?: number
  /** Returns the uid of the VM's VMM: only that user may open its tap. Undefined: the agent's own. */
  readonly ownerOf?: (vmId: string) => number | undefined
  /**
   * Returns the `ip` command that creates a guest's device; default: a tap. Tests use network namespaces instead of
   * guests.
   */
  readonly makeDevice?: (name: string) => string
  /** Runs nft and ip for single VMs. */
  readonly runs?: RunCommand
}

/**
 * Connects each VM through its own tap with a routed IPv4 /31 and its IPv6 /128. There is no bridge, so guests share no
 * link. The kernel stores each VM's IPv4 address on its tap.
 * @throws Error without root, or if nft cannot load the rules.
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
    /** Removes rules, addresses and slot only if no guest is left. */
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
  /** The number of this agent among the agents of the host. */
  readonly slot: number
  /**
   * True if the agent had no slot yet and has claimed a free one. An earlier owner of the slot may have left taps and
   * rules behind.
   */
  readonly isNewSlot: boolean
}

/**
 * Loads the rules that all guests share. Guests from before a restart of the agent keep their taps,
 * addresses and rules.
 */
async function openGuests(options: OpenOptions): Promise<TapGuests> {
  const { runs, slot, isNewSlot } = options
  const prefix = tapPrefix(slot)
  // The slot's previous agent is gone: remove its taps, which have addresses that this agent will use.
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

/** Repairs the rules and reports refused packets at a fixed interval. Returns a function that stops this. */
function startHealing(guests: TapGuests, options: HealingOptions): () => void {
  const growth = growthOf()
  let isHealing = false
  const timer = setInterval(() => {
    if (isHealing) return // the previous round is still running
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

/** See `Network.adopt`. */
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

/** See `Network.reclaim`. */
async function reclaimTaps(guests: TapGuests, keep: ReadonlySet<string>): Promise<void> {
  const { book, prefix } = guests
  const kept = new Set([...keep].map(vmId => tapOf(guests, vmId)))
  for (const tap of tapNames(prefix)) if (!kept.has(tap)) await removeTap(tap)
  for (const name of namespaceNames(prefix)) if (!kept.has(name)) await removeNamespace(name, guests.runs)
  // After a crash some VMs have rules but no tap.
  await guests.firewall.keepOnly(kept, new Set([...keep].flatMap(vmId => guests.ownerOf(vmId) ?? [])))
  for (const { tap, address } of await tapAddresses(prefix, guests.runs))
    if (!book.restore(tap, address)) await removeTap(tap) // half-made, or of another subnet
}

const ownAddresses = ({ probe, resolver }: { readonly probe: string; readonly resolver: string }) => [probe, resolver]

/**
 * Returns the range of the guests that still run, which keep their addresses even if the control plane has assigned
 * another range since.
 */
async function guestsAtStart(subnet: string | null, slot: number, runs: RunCommand): Promise<string> {
  if (subnet !== null) return sliceOf(subnet, slot)
  const addresses = (await tapAddresses(tapPrefix(slot), runs)).map(({ address }) => networkOf(address))
  return addresses.find(network => network !== undefined) ?? sliceOf(firstGuests, slot)
}

/** Checks that no device of the host is in this network, in which it would become unreachable. @throws Error */
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
