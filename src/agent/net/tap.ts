import { createHash } from 'node:crypto'
import type { FirewallObserved } from '../../contract/network.ts'
import { gateway6, guestRoute6, type NetworkPlan, slotAddresses, usablePairs } from './addresses.ts'
import { addLoopback, enableForwarding, makeTap, removeLoopback, removeTap, tapAddresses, tapNames } from './devices.ts'
import { Firewall } from './firewall.ts'
import type { Network, Nic, OnHealed } from './net.ts'
import { tapPrefix } from './rules.ts'
import { claimSlot, releaseSlot } from './slot.ts'
import { macOf } from './user.ts'

/** How long a rule that somebody else has changed stays so. */
const healEveryMs = 10_000

export interface TapOptions {
  readonly dataDir: string
  /** IPv4 /16 for guests; the agents of one machine share it. */
  readonly subnet: string
  /** See `TableInput`. */
  readonly allowed?: readonly string[]
  readonly denied?: readonly string[]
  readonly onHealed?: OnHealed
  readonly onError?: (error: unknown) => void
  readonly healEveryMs?: number
  /** The `ip` command that makes a guest's device; default: a tap. Tests put network namespaces in place of guests. */
  readonly makeDevice?: (name: string) => string
}

const noPlan: Omit<NetworkPlan, 'appPort'> = { ipv6: null, firewall: { version: 0, rules: [] } }

/**
 * Each VM on a tap of its own with a routed IPv4 /31 and its IPv6 /128. No bridge, so there is nothing two guests share.
 * Which VM has which IPv4 address is kept by the kernel, on the tap itself.
 * @throws Error without root, or where nft cannot load the rules.
 */
export async function tapNetwork(options: TapOptions): Promise<Network> {
  const slot = await claimSlot(options.dataDir)
  const prefix = tapPrefix(slot)
  const addresses = slotAddresses(options.subnet, slot)
  const { guests, probe, resolver } = addresses
  const indexes = new Map<string, number>()
  const guarded = new Map<string, FirewallObserved>()
  /** By tap: those that were connected or guarded since the agent's start. */
  const vms = new Map<string, string>()
  const nameOf = (vmId: string) => `${prefix}${createHash('sha256').update(vmId).digest('hex').slice(0, 9)}`
  const table = { slot, guests, probe, resolver, allowed: options.allowed ?? [], denied: options.denied ?? [] }
  const firewall = new Firewall(table)
  await firewall.open()
  const hasIpv6 = await enableForwarding()
  await addLoopback([probe, resolver])

  const guard = async (vmId: string, plan: NetworkPlan): Promise<void> => {
    const { version } = plan.firewall
    vms.set(nameOf(vmId), vmId)
    const healed = guarded.get(vmId)?.healed ?? 0
    try {
      await firewall.put({ tap: nameOf(vmId), plan: hasIpv6 ? plan : { ...plan, ipv6: null } })
      guarded.set(vmId, { version, state: 'applied', detail: null, healed })
    } catch (error) {
      guarded.set(vmId, { version, state: 'failed', detail: String(error), healed })
      throw error
    }
  }
  const heal = async () => {
    const taps = new Set(await firewall.heal())
    for (const [vmId, seen] of guarded)
      if (taps.has(nameOf(vmId))) {
        guarded.set(vmId, { ...seen, healed: seen.healed + 1 })
        options.onHealed?.(vmId)
      }
  }
  let isHealing = false
  const timer = setInterval(() => {
    if (isHealing) return // a slow round is not overtaken by the next
    isHealing = true
    heal()
      .catch((error: unknown) => options.onError?.(error))
      .finally(() => (isHealing = false))
  }, options.healEveryMs ?? healEveryMs)
  timer.unref()

  return {
    mode: 'tap',
    probeFrom: probe,
    ipv4: { guests, gateway: resolver },
    resolver,
    guard,
    guarded: vmId => guarded.get(vmId),
    vmAt(address) {
      const index = addresses.indexOf(addresses.hostOf(address))
      const tap = [...indexes].find(([, at]) => at === index)?.[0]
      return tap === undefined ? undefined : vms.get(tap)
    },
    async connect(vmId, appPort, given): Promise<Nic> {
      const tap = nameOf(vmId)
      const plan = given ?? { ...noPlan, appPort }
      const ipv6 = hasIpv6 ? plan.ipv6 : null
      const known = indexes.get(tap)
      const index = known ?? freeIndex(indexes)
      const { host, guest } = addresses.pair(index)
      const mac = macOf(vmId)
      // Taken before anything is waited for: VMs that start at once must not choose the same pair.
      indexes.set(tap, index)
      const device = {
        tap,
        make: options.makeDevice?.(tap) ?? `tuntap add dev ${tap} mode tap`,
        host,
        guest,
        mac,
        gatewayMac: macOf(`host of ${vmId}`),
        ipv6: ipv6?.address ?? null,
      }
      try {
        await guard(vmId, plan)
        if (known === undefined) await makeTap(device)
      } catch (error) {
        if (known === undefined) {
          await removeTap(tap)
          indexes.delete(tap)
        }
        throw error
      }
      const v6 = ipv6 ? { ip6: ipv6.address, gateway6, route6: guestRoute6(ipv6) } : {}
      return {
        netdev: `tap,id=n0,ifname=${tap},script=no,downscript=no`,
        mac,
        guest: {
          ...{ ip: guest, prefix: 31, gateway: host, gatewayMac: macOf(`host of ${vmId}`), dns: resolver },
          ...v6,
        },
        endpoint: { host: guest, port: appPort },
        tap,
      }
    },
    async release(vmId) {
      const tap = nameOf(vmId)
      if (tapNames(prefix).includes(tap)) await removeTap(tap)
      await firewall.remove(tap)
      guarded.delete(vmId)
      vms.delete(tap)
      indexes.delete(tap)
    },
    async reclaim(keep) {
      const kept = new Set([...keep].map(nameOf))
      for (const tap of tapNames(prefix))
        if (!kept.has(tap)) {
          await removeTap(tap)
          await firewall.remove(tap)
        }
      for (const { tap, address } of await tapAddresses(prefix)) {
        const index = addresses.indexOf(address)
        if (index !== undefined) indexes.set(tap, index)
        else await removeTap(tap) // half-made, or of another subnet
      }
    },
    allowGateways: addresses => firewall.setGateways(addresses),
    /** The rules stay as long as there is a guest to guard. */
    async close() {
      clearInterval(timer)
      if (tapNames(prefix).length > 0) return
      await firewall.close()
      await removeLoopback([probe, resolver])
      await releaseSlot(slot)
    },
  }
}

function freeIndex(indexes: ReadonlyMap<string, number>): number {
  const used = new Set(indexes.values())
  for (let index = 0; index < usablePairs; index++) if (!used.has(index)) return index
  throw new Error(`all ${usablePairs} guest addresses of this agent are taken`)
}
