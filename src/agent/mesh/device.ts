/** The host's WireGuard device, which the kernel provides, or wireguard-go on kernels without WireGuard. */
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { MeshPeer } from '../../contract/network.ts'
import { formatCidr, parseCidr } from '../../lib/cidr.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { writeFileAtomic } from '../../lib/files.ts'
import { hasProgram } from '../../lib/programs.ts'
import type { MeshKey } from './keys.ts'

/** Size of the headers (IPv6, UDP, WireGuard) and of the authentication tag of each packet. */
const overheadBytes = 80
const defaultMtu = 1500
/** Interval of keepalive packets, which keep NAT mappings between the hosts alive. */
const keepaliveSeconds = 25
/**
 * Metric of the mesh's routes. It is high, so that other routes to the same network, such as those to this host's VMs,
 * take precedence.
 */
const routeMetric = 4096

export interface DeviceState {
  readonly key: MeshKey
  /** UDP port on which the device listens. */
  readonly port: number
  /** This host's own mesh address. */
  readonly address: string
  /**
   * Source IPv4 address of this host's gateway for connections to guests on other hosts; undefined if this host has no
   * guests.
   */
  readonly gateway4: string | undefined
  readonly peers: readonly MeshPeer[]
}

/** A peer's state as the device reports it. */
export interface PeerCounters {
  readonly lastHandshakeAtMs: number | null
  readonly rxBytes: number
  readonly txBytes: number
}

/** Creates the WireGuard device unless it exists. @throws Error that names the missing program */
export async function openDevice(name: string, endpointHost: string): Promise<void> {
  if (!(await hasProgram('wg'))) throw new Error('the mesh needs the wg program: apt-get install wireguard-tools')
  if (!(await exists(name))) await makeDevice(name)
  await run('ip', ['link', 'set', name, 'mtu', String(underlayMtu(endpointHost) - overheadBytes), 'up'])
}

/** Removes the device. Without this call, the device outlives the agent, as VMs do. */
export const removeDevice = (name: string) => run('ip', ['link', 'del', name]).catch(() => undefined)

async function makeDevice(name: string): Promise<void> {
  try {
    await run('ip', ['link', 'add', name, 'type', 'wireguard'])
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    if (!(await hasProgram('wireguard-go')))
      throw new Error('this kernel has no WireGuard: apt-get install wireguard-go', { cause: error })
    // wireguard-go becomes a daemon once the device exists. The variable disables its advice to use the kernel module.
    await run('wireguard-go', [name], { env: { WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD: '1' } })
  }
}

/**
 * Sets exactly these peers, addresses and routes. Sessions with unchanged peers continue.
 * @param file path for the configuration (mode 0600): it contains the private key, which must not appear in arguments
 */
export async function configureDevice(name: string, file: string, state: DeviceState): Promise<void> {
  await writeFileAtomic(file, configuration(state), { mode: 0o600, durable: false })
  await run('wg', ['syncconf', name, file])
  await setAddress(name, state.address)
  await setRoutes(name, state)
}

function configuration({ key, port, peers }: DeviceState): string {
  const sections = peers.map(peer => [
    '[Peer]',
    `PublicKey = ${peer.publicKey}`,
    `Endpoint = ${peer.endpoint}`,
    `AllowedIPs = ${allowed(peer).join(', ')}`,
    `PersistentKeepalive = ${keepaliveSeconds}`,
  ])
  return ['[Interface]', `PrivateKey = ${key.privateKey}`, `ListenPort = ${port}`, ...sections.flat(), ''].join('\n')
}

const allowed = ({ address, vmAddresses, ipv4 }: MeshPeer) => [
  ...[address, ...vmAddresses].map(one => `${one}/128`),
  ...(ipv4 ? [ipv4.guests] : []),
]

const Addresses = Type.Array(
  Type.Object({ addr_info: Type.Optional(Type.Array(Type.Object({ local: Type.String(), scope: Type.String() }))) }),
)

async function setAddress(name: string, address: string): Promise<void> {
  const wanted = parseCidr(address)
  const links: unknown = JSON.parse(await run('ip', ['-json', '-6', 'address', 'show', 'dev', name]))
  const all = Value.Check(Addresses, links) ? links.flatMap(link => link.addr_info ?? []) : []
  const others = all.filter(({ local, scope }) => scope === 'global' && parseCidr(local)?.value !== wanted?.value)
  for (const { local } of others) await run('ip', ['addr', 'del', `${local}/128`, 'dev', name])
  await run('ip', ['addr', 'replace', `${address}/128`, 'dev', name, 'nodad'])
}

const Routes = Type.Array(Type.Object({ dst: Type.String(), metric: Type.Optional(Type.Integer()) }))

/**
 * Routes three kinds of networks to the device: the /64s of hosts, the /64s of projects that have VMs on other hosts,
 * and the guest networks of other hosts. WireGuard then chooses the peer.
 */
async function setRoutes(name: string, { address, gateway4, peers }: DeviceState): Promise<void> {
  const ipv6 = [address, ...peers.flatMap(peer => peer.vmAddresses)].map(subnetOf)
  await followRoutes(name, '-6', ipv6, '')
  const ipv4 = gateway4 === undefined ? [] : peers.flatMap(peer => peer.ipv4?.guests ?? [])
  await followRoutes(name, '-4', ipv4, ` src ${gateway4}`)
}

async function followRoutes(
  name: string,
  family: '-4' | '-6',
  networks: readonly string[],
  source: string,
): Promise<void> {
  const wanted = new Set(networks)
  const listed: unknown = JSON.parse(await run('ip', ['-json', family, 'route', 'show', 'dev', name]))
  const there = new Set(
    Value.Check(Routes, listed) ? listed.filter(({ metric }) => metric === routeMetric).map(({ dst }) => dst) : [],
  )
  const rest = `dev ${name} metric ${routeMetric}`
  const change = [
    ...[...there].filter(dst => !wanted.has(dst)).map(dst => `route del ${dst} ${rest}`),
    ...[...wanted].filter(dst => !there.has(dst)).map(dst => `route add ${dst} ${rest}${source}`),
  ]
  if (change.length > 0) await run('ip', [family, '-batch', '-'], { input: `${change.join('\n')}\n` })
}

function subnetOf(address: string): string {
  const network = parseCidr(`${address}/64`)
  if (!network) throw new Error(`not an address: ${address}`)
  return formatCidr(network)
}

/** Returns what the device reports about each peer, by the peer's public key. */
export async function peerCounters(name: string): Promise<ReadonlyMap<string, PeerCounters>> {
  // The first line describes the device itself, including its private key; ignore it.
  const [, ...lines] = (await run('wg', ['show', name, 'dump'])).trim().split('\n')
  return new Map(
    lines.map(line => {
      const [publicKey = '', , , , handshake, rx, tx] = line.split('\t')
      const seconds = Number(handshake)
      const lastHandshakeAtMs = seconds > 0 ? seconds * 1000 : null
      return [publicKey, { lastHandshakeAtMs, rxBytes: Number(rx), txBytes: Number(tx) }]
    }),
  )
}

/** Returns the MTU of the network device that has this address. */
function underlayMtu(host: string): number {
  const found = Object.entries(networkInterfaces()).find(([, all]) => all?.some(one => one.address === host))
  return found ? Number(readFileSync(`/sys/class/net/${found[0]}/mtu`, 'utf8')) : defaultMtu
}

const exists = (name: string) =>
  run('ip', ['link', 'show', 'dev', name]).then(
    () => true,
    () => false,
  )
