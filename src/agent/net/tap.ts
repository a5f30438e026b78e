import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { run } from '../../lib/exec.ts'
import type { Network, Nic } from './net.ts'
import { rules, tableName, tapPrefix } from './rules.ts'
import { claimSlot, releaseSlot } from './slot.ts'
import { macOf } from './user.ts'

/** Point-to-point pairs in a slot's /20. */
const pairsPerSlot = 2048

/**
 * Each VM on a tap of its own with a routed /31: even address on the host, odd in the guest. No bridge, so there is
 * nothing two guests share. Which VM has which address is kept by the kernel, on the tap itself.
 * @throws Error without root, or where nft cannot load the rules.
 */
export async function tapNetwork(dataDir: string, subnet: string): Promise<Network> {
  const slot = await claimSlot(dataDir)
  const prefix = tapPrefix(slot)
  const [a, b] = subnet.split('.')
  const base = `${a}.${b}`
  const indexes = new Map<string, number>()
  const nameOf = (vmId: string) => `${prefix}${createHash('sha256').update(vmId).digest('hex').slice(0, 9)}`
  const addresses = (index: number) => {
    const host = slot * pairsPerSlot * 2 + index * 2
    return { host: dotted(base, host), guest: dotted(base, host + 1) }
  }
  await run('nft', ['-f', '-'], { input: rules({ slot, guests: `${dotted(base, slot * pairsPerSlot * 2)}/20` }) })
  await enableForwarding()
  return {
    mode: 'tap',
    async connect(vmId, appPort): Promise<Nic> {
      const tap = nameOf(vmId)
      const known = indexes.get(tap)
      const index = known ?? freeIndex(indexes)
      const { host, guest } = addresses(index)
      const mac = macOf(vmId)
      const gatewayMac = macOf(`host of ${vmId}`)
      if (known === undefined) {
        indexes.set(tap, index)
        await makeTap({ tap, host, guest, mac, gatewayMac }).catch(async (error: unknown) => {
          await removeTap(tap)
          indexes.delete(tap)
          throw error
        })
      }
      const dns = resolver()
      return {
        netdev: `tap,id=n0,ifname=${tap},script=no,downscript=no`,
        mac,
        guest: { ip: guest, prefix: 31, gateway: host, gatewayMac, ...(dns ? { dns } : {}) },
        endpoint: { host: guest, port: appPort },
        tap,
      }
    },
    async release(vmId) {
      const tap = nameOf(vmId)
      if (tapNames(prefix).includes(tap)) await removeTap(tap)
      indexes.delete(tap)
    },
    async reclaim(keep) {
      const kept = new Set([...keep].map(nameOf))
      for (const tap of tapNames(prefix)) if (!kept.has(tap)) await removeTap(tap)
      for (const { tap, address } of await tapAddresses(prefix)) {
        const host = hostNumber(address) - slot * pairsPerSlot * 2
        if (address.startsWith(`${base}.`) && host >= 0 && host < pairsPerSlot * 2) indexes.set(tap, host / 2)
        else await removeTap(tap) // half-made, or of another subnet
      }
    },
    /** The rules stay as long as there is a guest to guard. */
    async close() {
      if (tapNames(prefix).length > 0) return
      await run('nft', ['delete', 'table', 'inet', tableName(slot)])
      await releaseSlot(slot)
    },
  }
}

const dotted = (base: string, number: number) => `${base}.${number >> 8}.${number & 255}`

function hostNumber(address: string): number {
  const [, , c, d] = address.split('.').map(Number)
  return (c ?? 0) * 256 + (d ?? 0)
}

function freeIndex(indexes: ReadonlyMap<string, number>): number {
  const used = new Set(indexes.values())
  for (let index = 0; index < pairsPerSlot; index++) if (!used.has(index)) return index
  throw new Error(`all ${pairsPerSlot} guest addresses of this agent are taken`)
}

interface Tap {
  readonly tap: string
  readonly host: string
  readonly guest: string
  readonly mac: string
  readonly gatewayMac: string
}

/** One `ip` process for all of it: 5 ms. The fixed neighbour entry saves an ARP round trip with a guest that boots. */
async function makeTap({ tap, host, guest, mac, gatewayMac }: Tap): Promise<void> {
  const batch = [
    `tuntap add dev ${tap} mode tap`,
    `link set dev ${tap} address ${gatewayMac} addrgenmode none up`,
    `addr add ${host}/31 dev ${tap}`,
    `neigh replace ${guest} lladdr ${mac} nud permanent dev ${tap}`,
  ]
  await run('ip', ['-batch', '-'], { input: `${batch.join('\n')}\n` })
}

async function removeTap(tap: string): Promise<void> {
  await run('ip', ['link', 'del', 'dev', tap]).catch((error: unknown) => {
    if (tapNames(tap).length > 0) throw error
  })
}

function tapNames(prefix: string): string[] {
  return readdirSync('/sys/class/net').filter(name => name.startsWith(prefix))
}

const Addresses = Type.Array(
  Type.Object({
    ifname: Type.Optional(Type.String()),
    addr_info: Type.Optional(Type.Array(Type.Object({ local: Type.Optional(Type.String()) }))),
  }),
)

async function tapAddresses(prefix: string): Promise<Array<{ tap: string; address: string }>> {
  if (tapNames(prefix).length === 0) return []
  const links: unknown = JSON.parse(await run('ip', ['-json', '-4', 'address']))
  const addresses = new Map<string, string>()
  if (Value.Check(Addresses, links)) {
    for (const { ifname = '', addr_info: [first] = [] } of links) addresses.set(ifname, first?.local ?? '')
  }
  return tapNames(prefix).map(tap => ({ tap, address: addresses.get(tap) ?? '' }))
}

/** Egress of the guests goes through the host. It stays on: other programs may rely on it by then. */
async function enableForwarding(): Promise<void> {
  const file = '/proc/sys/net/ipv4/ip_forward'
  if (readFileSync(file, 'utf8').trim() !== '1') await writeFile(file, '1')
}

/** The host's first resolver that a guest can reach: its loopback means something else inside. */
function resolver(): string | undefined {
  for (const file of ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf']) {
    try {
      const found = readFileSync(file, 'utf8').matchAll(/^nameserver\s+(\d+\.\d+\.\d+\.\d+)/gm)
      for (const [, address = ''] of found) if (!address.startsWith('127.')) return address
    } catch {
      // not there: the next one
    }
  }
  return undefined
}
