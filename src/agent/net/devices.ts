/** Network devices of the host: taps, the agent's own addresses, IP forwarding. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { run } from '../../lib/exec.ts'
import { inHostMounts } from '../base/host-mounts.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { gateway6 } from './addresses.ts'

export interface Tap {
  readonly tap: string
  /** Command of `ip` that creates the device. */
  readonly make: string
  readonly host: string
  readonly guest: string
  readonly mac: string
  readonly gatewayMac: string
  readonly ipv6: string | null
  /** Destination of the guest's IPv6 route; used inside a network namespace only. */
  readonly route6?: string | null
}

/** Creates the tap and sets its addresses. All of it takes one `ip` process, and 2 ms. */
export async function makeTap(device: Tap, runs: RunCommand): Promise<void> {
  await ipBatch([device.make, linkUp(device), ...addressesOf(device)], { runs })
}

/**
 * Creates a network namespace with the tap's name, and a veth pair into it. The host's end of the pair takes the place
 * of the tap; the other end is `eth0`, with the guest's addresses. A sandbox takes over the addresses of its namespace
 * and removes them from `eth0`, so each start needs a new namespace.
 */
export async function makeNamespace(device: Tap, runs: RunCommand): Promise<void> {
  const { tap, host, guest, mac, gatewayMac, ipv6 } = device
  await removeNamespace(tap, runs)
  const make = [`netns add ${tap}`, `link add ${tap} type veth peer name eth0 address ${mac} netns ${tap}`]
  await ipBatch([...make, linkUp(device), ...addressesOf(device)], { runs, names: true })
  const inside = [
    'link set dev lo up',
    'link set dev eth0 addrgenmode none up',
    `addr add ${guest}/31 dev eth0`,
    `neigh replace ${host} lladdr ${gatewayMac} nud permanent dev eth0`,
    `route add default via ${host}`,
  ]
  const inside6 = [
    `addr add ${ipv6}/128 dev eth0 nodad`,
    `neigh replace ${gateway6} lladdr ${gatewayMac} nud permanent dev eth0`,
    `route add ${device.route6} via ${gateway6} dev eth0 onlink`,
  ]
  const lines = ipv6 === null ? inside : [...inside, ...inside6]
  await runs('ip', ['-n', tap, '-batch', '-'], { input: `${lines.join('\n')}\n` })
}

/** Removes the network namespace and its veth pair, if the namespace exists. */
export async function removeNamespace(name: string, runs: RunCommand): Promise<void> {
  if (!existsSync(join(namespaceDir, name))) return
  // As long as its sandbox is still exiting, the namespace and the veth pair would remain. So remove the pair
  // explicitly.
  if (tapNames(name).includes(name)) await removeTap(name, runs)
  const { program, args } = inHostMounts(dirname(namespaceDir), { program: 'ip', args: ['netns', 'del', name] })
  await runs(program, args)
}

/** Returns the names of the network namespaces that belong to the VMs of one agent. */
export const namespaceNames = (prefix: string): string[] =>
  existsSync(namespaceDir) ? readdirSync(namespaceDir).filter(name => name.startsWith(prefix)) : []

/** Returns the names of the network namespaces in which a process runs. */
export function livingNamespaces(): string[] {
  const names = namespaceNames('')
  if (names.length === 0) return []
  const living = new Set(readdirSync('/proc').flatMap(pid => namespaceOf(pid) ?? []))
  return names.filter(name => {
    // Another VM's namespace may have been removed since the names were listed.
    const inode = statSync(join(namespaceDir, name), { throwIfNoEntry: false })?.ino
    return inode !== undefined && living.has(inode)
  })
}

function namespaceOf(pid: string): number | undefined {
  try {
    return statSync(`/proc/${pid}/ns/net`).ino
  } catch {
    return undefined // the entry of /proc is not a process, or the process has exited
  }
}

/** The directory in which ip-netns(8) mounts network namespaces. */
export const namespaceDir = '/run/netns'

/** Creates the tap without an address in the network namespace of this process. It is removed with the namespace. */
export async function makeTapIn(pid: number, device: Tap): Promise<void> {
  await ipBatch([device.make, linkUp(device)], { pid })
}

/**
 * Moves the tap from the network namespace of this process to the host's. Open file descriptors of it stay valid. Takes
 * one kernel grace period: 20 ms, almost no CPU time.
 */
export async function bringTap(pid: number, device: Tap): Promise<void> {
  await ipBatch([`link set dev ${device.tap} netns ${process.pid}`], { pid })
  await ipBatch([linkUp(device), ...addressesOf(device)])
}

const linkUp = ({ tap, gatewayMac }: Tap) => `link set dev ${tap} address ${gatewayMac} addrgenmode none up`

/** Returns `ip` commands for the tap's addresses. Permanent neighbor entries save round trips with a booting guest. */
function addressesOf({ tap, host, guest, mac, ipv6 }: Tap): string[] {
  const batch = [`addr add ${host}/31 dev ${tap}`, `neigh replace ${guest} lladdr ${mac} nud permanent dev ${tap}`]
  const batch6 = [
    `addr add ${gateway6}/64 dev ${tap} nodad`,
    `route replace ${ipv6}/128 dev ${tap}`,
    `neigh replace ${ipv6} lladdr ${mac} nud permanent dev ${tap}`,
  ]
  return ipv6 === null ? batch : [...batch, ...batch6]
}

export async function removeTap(tap: string, runs: RunCommand = run): Promise<void> {
  await runs('ip', ['link', 'del', 'dev', tap]).catch((error: unknown) => {
    if (tapNames(tap).length > 0) throw error
  })
}

/**
 * Removes several taps as one device group, so that all of them wait for a single kernel grace period.
 * @param group a group number that no other device on the host has
 */
export async function removeTaps(taps: readonly string[], group: number, runs: RunCommand): Promise<void> {
  const present = new Set(tapNames(''))
  const [only, ...more] = taps.filter(tap => present.has(tap))
  if (only === undefined) return
  if (more.length === 0) return removeTap(only, runs)
  const marks = [only, ...more].map(tap => `link set dev ${tap} group ${group}`)
  await ipBatch([...marks, `link del group ${group}`], { runs })
}

export function tapNames(prefix: string): string[] {
  return readdirSync('/sys/class/net').filter(name => name.startsWith(prefix))
}

const Addresses = Type.Array(
  Type.Object({
    ifname: Type.Optional(Type.String()),
    addr_info: Type.Optional(Type.Array(Type.Object({ local: Type.Optional(Type.String()) }))),
  }),
)

export async function tapAddresses(prefix: string, runs: RunCommand): Promise<Array<{ tap: string; address: string }>> {
  if (tapNames(prefix).length === 0) return []
  const links: unknown = JSON.parse(await runs('ip', ['-json', '-4', 'address']))
  const addresses = new Map<string, string>()
  if (Value.Check(Addresses, links)) {
    for (const { ifname = '', addr_info: [first] = [] } of links) addresses.set(ifname, first?.local ?? '')
  }
  return tapNames(prefix).map(tap => ({ tap, address: addresses.get(tap) ?? '' }))
}

/** Adds the agent's own addresses to the loopback device. Idempotent. */
export const addLoopback = (addresses: readonly string[], runs: RunCommand) =>
  ipBatch(
    addresses.map(address => `addr replace ${address}/32 dev lo`),
    { runs },
  )

export async function removeLoopback(addresses: readonly string[]): Promise<void> {
  // another process may have removed the address already
  for (const address of addresses) await run('ip', ['addr', 'del', `${address}/32`, 'dev', 'lo']).catch(() => undefined)
}

/**
 * Enables IP forwarding for guests. The agent never disables it again, because other programs may rely on it by then.
 * @returns whether the host has IPv6
 */
export async function enableForwarding(): Promise<boolean> {
  await setSysctl('/proc/sys/net/ipv4/ip_forward', '1')
  const conf = '/proc/sys/net/ipv6/conf'
  if (!existsSync(conf) || readFileSync(join(conf, 'all/disable_ipv6'), 'utf8').trim() === '1') return false
  if (readFileSync(join(conf, 'all/forwarding'), 'utf8').trim() === '1') return true
  // A host that forwards packets ignores router advertisements unless accept_ra is 2, and would lose its own address.
  for (const device of readdirSync(conf)) {
    const file = join(conf, device, 'accept_ra')
    if (readFileSync(file, 'utf8').trim() === '1') await writeFile(file, '2')
  }
  await setSysctl(join(conf, 'all/forwarding'), '1')
  return true
}

async function setSysctl(file: string, value: string): Promise<void> {
  if (readFileSync(file, 'utf8').trim() !== value) await writeFile(file, value)
}

/** Runs `ip` commands in one process. @param pid a process whose network namespace to use; default: the agent's own */
async function ipBatch(
  lines: readonly string[],
  {
    pid,
    runs = run,
    names = false,
  }: { readonly pid?: number; readonly runs?: RunCommand; readonly names?: boolean } = {},
): Promise<void> {
  const batch = { program: 'ip', args: ['-batch', '-'] }
  const inNamespace = { program: 'nsenter', args: [`--net=/proc/${pid}/ns/net`, 'ip', ...batch.args] }
  const { program, args } = names ? inHostMounts(dirname(namespaceDir), batch) : pid === undefined ? batch : inNamespace
  await runs(program, args, { input: `${lines.join('\n')}\n` })
}
