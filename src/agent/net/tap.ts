import { createHash } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import { type FirewallObserved, firstGuests } from '../../contract/network.ts'
import { contains, parseCidr } from '../../lib/cidr.ts'
import { run } from '../../lib/exec.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { addressBook } from './address-book.ts'
import { gateway6, guestRoute6, type NetworkPlan, networkOf, sliceOf } from './addresses.ts'
import {
  addLoopback,
  enableForwarding,
  makeNamespace,
  makeTap,
  namespaceNames,
  removeNamespace,
  removeLoopback,
  removeTap,
  removeTaps,
  type Tap,
  tapAddresses,
  tapNames,
} from './devices.ts'
import { createDepartures } from './departures.ts'
import { Firewall } from './firewall.ts'
import { defaultLimits, type GuestLimits } from '../base/network-limits.ts'
import type { DevicePlace, Network, Nic, OnHealed, OnRefused } from './net.ts'
import { growthOf } from './refusals.ts'
import { tapPrefix } from './rules.ts'
import { claimSlot, releaseSlot } from './slot.ts'
import { tapsApart } from './taps-apart.ts'
import { macOf } from './user.ts'

/** Device group for taps that are being removed, plus the slot. `ip` assigns this group to no other device. */
const leavingGroup = 6_740_000

/** Interval between checks of the rules, and so the longest time that a foreign change lasts. */
const healEveryMs = 10_000

export interface TapOptions {
  readonly dataDir: string
  /**
   * IPv4 /16 for guests, which the agents of one host share; null: `firstGuests`, until control assigns others
   * (`adopt`).
   */
  readonly subnet: string | null
  /** See `TableInput`. */
  readonly allowed?: readonly string[]
  readonly denied?: readonly string[]
  /** Limits of each guest. */
  readonly limits?: GuestLimits
  readonly onHealed?: OnHealed
  readonly onRefused?: OnRefused
  /** Called when the kernel does not support the limits. */
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

const noPlan: Omit<NetworkPlan, 'appPort'> = { ipv6: null, firewall: { version: 0, rules: [] } }

/**
 * Connects each VM through its own tap with a routed IPv4 /31 and its IPv6 /128. There is no bridge, so guests share no
 * link. The kernel stores each VM's IPv4 address on its tap.
 * @throws Error without root, or if nft cannot load the rules.
 */
export async function tapNetwork(options: TapOptions): Promise<Network> {
  const { runs = run } = options
  const { slot, isNew: isNewSlot } = await claimSlot(options.dataDir)
  const prefix = tapPrefix(slot)
  // The slot's previous agent is gone: remove its taps, which have addresses that this agent will use.
  if (isNewSlot) {
    await removeTaps(tapNames(prefix), leavingGroup + slot, runs)
    for (const name of namespaceNames(prefix)) await removeNamespace(name, runs)
  }
  const book = addressBook(await guestsAtStart(options.subnet, slot, runs))
  const guarded = new Map<string, FirewallObserved>()
  const mutex = createKeyedMutex()
  /** By tap: the VMs connected or guarded since the agent started. */
  const vms = new Map<string, string>()
  /** By VM. */
  const connected = new Map<string, Tap>()
  /** The rules of the last `connect`, by VM. */
  const holding = new Map<string, Promise<void>>()
  const nameOf = (vmId: string) => `${prefix}${createHash('sha256').update(vmId).digest('hex').slice(0, 9)}`
  const tableNow = () => ({
    ...book.addresses,
    slot,
    allowed: options.allowed ?? [],
    denied: options.denied ?? [],
    limits: options.limits ?? defaultLimits,
  })
  const firewall = new Firewall(tableNow(), runs)
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

  const guardUntil = async (until: 'hold' | 'known', vmId: string, plan: NetworkPlan): Promise<void> => {
    await departures.gone(nameOf(vmId))
    const { version } = plan.firewall
    vms.set(nameOf(vmId), vmId)
    const healed = guarded.get(vmId)?.healed ?? 0
    try {
      const vm = { tap: nameOf(vmId), owner: options.ownerOf?.(vmId), plan: hasIpv6 ? plan : { ...plan, ipv6: null } }
      await firewall.put(vm, until)
      guarded.set(vmId, { version, state: 'applied', detail: null, healed })
    } catch (error) {
      guarded.set(vmId, { version, state: 'failed', detail: String(error), healed })
      throw error
    }
  }
  const makeDevice = async (device: Tap, where: DevicePlace, isNew: boolean) => {
    if (where === 'namespace') await makeNamespace(device, runs)
    else if (isNew && where !== 'apart') await makeTap(device, runs)
  }
  const growth = growthOf()
  const heal = async () => {
    const taps = new Set(await firewall.heal())
    for (const { tap, kind, count } of growth(firewall.refused())) {
      const vmId = vms.get(tap)
      if (vmId !== undefined) options.onRefused?.(vmId, kind, count)
    }
    for (const [vmId, observed] of guarded)
      if (taps.has(nameOf(vmId))) {
        guarded.set(vmId, { ...observed, healed: observed.healed + 1 })
        options.onHealed?.(vmId)
      }
  }
  let isHealing = false
  const timer = setInterval(() => {
    if (isHealing) return // the previous round is still running
    isHealing = true
    heal()
      .catch((error: unknown) => options.onError?.(error))
      .finally(() => (isHealing = false))
  }, options.healEveryMs ?? healEveryMs)
  timer.unref()

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
    adopt: guests =>
      mutex.take('addresses', async () => {
        const before = book.addresses
        if (options.subnet !== null || before.guests === guests) return false
        await departures.settled()
        refuseTaken(guests)
        if (!book.change(guests)) return false
        await addLoopback(ownAddresses(book.addresses), runs)
        await firewall.change(tableNow())
        await removeLoopback(ownAddresses(before))
        return true
      }),
    guard: (vmId, plan) => guardUntil('known', vmId, plan),
    guarded: vmId => guarded.get(vmId),
    vmAt(address) {
      const tap = book.tapAt(address)
      return tap === undefined ? undefined : vms.get(tap)
    },
    apart: tapsApart(connected),
    async connect(vmId, appPort, given, where = 'here'): Promise<Nic> {
      const tap = nameOf(vmId)
      await departures.gone(tap)
      const plan = given ?? { ...noPlan, appPort }
      const ipv6 = hasIpv6 ? plan.ipv6 : null
      const { index, isNew } = book.take(tap)
      const { host, guest } = book.addresses.pair(index)
      const { resolver } = book.addresses
      const mac = macOf(vmId)
      const device = {
        tap,
        make: options.makeDevice?.(tap) ?? makeTapOf(tap, options.ownerOf?.(vmId)),
        host,
        guest,
        mac,
        gatewayMac: macOf(`host of ${vmId}`),
        ipv6: ipv6?.address ?? null,
        route6: ipv6 ? guestRoute6(ipv6) : null,
      }
      // A tap without rules of its own passes no packet, so its VMM can start meanwhile.
      const rules = guardUntil('hold', vmId, plan)
      rules.catch(() => undefined) // reported by `held`
      holding.set(vmId, rules)
      const made = makeDevice(device, where, isNew)
      try {
        await (where === 'ahead' ? made : bothDone(rules, made))
        connected.set(vmId, device)
      } catch (error) {
        await Promise.allSettled([rules])
        if (where === 'namespace') await removeNamespace(tap, runs)
        if (isNew) {
          if (where === 'here' || where === 'ahead') await removeTap(tap, runs)
          book.free(tap)
        }
        throw error
      }
      const v6 = ipv6 ? { ip6: ipv6.address, gateway6, route6: guestRoute6(ipv6) } : {}
      return {
        netdev: `tap,id=n0,ifname=${tap},script=no,downscript=no`,
        mac,
        guest: {
          ip: guest,
          prefix: 31,
          gateway: host,
          gatewayMac: macOf(`host of ${vmId}`),
          dns: resolver,
          ...v6,
        },
        endpoint: { host: guest, port: appPort },
        tap,
      }
    },
    held: async vmId => holding.get(vmId),
    async release(vmId) {
      const tap = nameOf(vmId)
      // Its rules may still be loading.
      await holding.get(vmId)?.catch(() => undefined)
      holding.delete(vmId)
      guarded.delete(vmId)
      vms.delete(tap)
      connected.delete(vmId)
      departures.begin(tap)
    },
    async reclaim(keep) {
      const kept = new Set([...keep].map(nameOf))
      for (const tap of tapNames(prefix)) if (!kept.has(tap)) await removeTap(tap)
      for (const name of namespaceNames(prefix)) if (!kept.has(name)) await removeNamespace(name, runs)
      // After a crash some VMs have rules but no tap.
      await firewall.keepOnly(kept, new Set([...keep].flatMap(vmId => options.ownerOf?.(vmId) ?? [])))
      for (const { tap, address } of await tapAddresses(prefix, runs))
        if (!book.restore(tap, address)) await removeTap(tap) // half-made, or of another subnet
    },
    allowGateways: addresses => firewall.setGateways(addresses),
    /** Keeps the rules as long as a guest needs them. */
    async close() {
      clearInterval(timer)
      await departures.close()
      if (tapNames(prefix).length > 0) return
      await firewall.close()
      await removeLoopback(ownAddresses(book.addresses))
      await releaseSlot(slot)
    },
  }
}

/** Waits for both, so that error handling never runs concurrently with one of them. @throws the first failure */
async function bothDone(one: Promise<void>, other: Promise<void>): Promise<void> {
  await Promise.allSettled([one, other])
  await one
  await other
}

/** Always sets an owner: any user may open a tap without one (drivers/net/tun.c, tun_not_capable). */
const makeTapOf = (tap: string, owner: number | undefined) => `tuntap add dev ${tap} mode tap user ${owner ?? 0}`

const ownAddresses = ({ probe, resolver }: { readonly probe: string; readonly resolver: string }) => [probe, resolver]

/**
 * Returns the range of the guests that still run, which keep their addresses even if control assigned another range
 * since.
 */
async function guestsAtStart(subnet: string | null, slot: number, runs: RunCommand): Promise<string> {
  if (subnet !== null) return sliceOf(subnet, slot)
  const addresses = (await tapAddresses(tapPrefix(slot), runs)).map(({ address }) => networkOf(address))
  return addresses.find(network => network !== undefined) ?? sliceOf(firstGuests, slot)
}

/** @throws Error if a device of the host is in this network: the device would become unreachable. */
function refuseTaken(guests: string): void {
  const network = parseCidr(guests)
  for (const [name, addresses] of Object.entries(networkInterfaces()))
    for (const { cidr } of addresses ?? []) {
      const taken = parseCidr(cidr ?? '')
      if (name === 'lo' || !network || !taken || !(contains(network, taken) || contains(taken, network))) continue
      throw new Error(
        `control assigned ${guests} to the guests of this host, which overlaps with ${name} (${cidr}): set MOTE_GUEST_SUBNET here, or MOTE_GUEST_NETWORK of the control plane`,
      )
    }
}
