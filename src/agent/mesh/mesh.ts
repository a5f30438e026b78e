/** The mesh: the encrypted WireGuard network between hosts. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { HostIpv4, HostNetwork, NetworkObserved, PeerObserved } from '../../contract/network.ts'
import { parseIp, formatIp } from '../../lib/cidr.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import { configureDevice, openDevice, type PeerCounters, peerCounters, removeDevice } from './device.ts'
import { keyAgeMs, newKey, openKey } from './keys.ts'
import { type Prober, startProber } from './prober.ts'

export interface MeshOptions {
  readonly dataDir: string
  readonly device: string
  /** `host:port` (UDP) at which other hosts reach this one. */
  readonly endpoint: string
  /** Returns this host's guest network, for gateways on other hosts. Each `apply` calls this, because it may change. */
  readonly ipv4: () => HostIpv4 | undefined
  /** Maximum age of the mesh key; after it, the key is replaced. */
  readonly rotateAfterMs: number
  readonly onError: (error: unknown) => void
}

export interface Mesh {
  /** Configures the peers that the control plane sends. Idempotent. */
  apply(view: Pick<HostNetwork, 'address' | 'peers'>): Promise<void>
  observed(): Promise<NonNullable<NetworkObserved['mesh']>>
  /** Replaces the host's mesh key. Other hosts get the new public key after this host's next heartbeat. */
  rotate(): Promise<void>
  /** Stops probes and key rotation. The device and its tunnels outlive the agent, as VMs do, unless `remove` is set. */
  stop(options?: { readonly remove?: boolean }): Promise<void>
}

const rotationCheckMs = 60_000

/**
 * Opens this host's end of the mesh. The key pair is generated on this host, and only the public key is reported.
 * @throws Error that names what is missing on the host
 */
export async function openMesh(options: MeshOptions): Promise<Mesh> {
  const { device, endpoint } = options
  const dir = join(options.dataDir, 'mesh')
  const keyFile = join(dir, 'key')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  let key = await openKey(keyFile)
  const { host, port } = parseEndpoint(endpoint)
  await openDevice(device, host)
  let view: Pick<HostNetwork, 'address' | 'peers'> | undefined
  let prober: { readonly address: string; readonly running: Prober } | undefined
  const mutex = createKeyedMutex()
  const configure = async () => {
    if (!view) return
    await configureDevice(device, join(dir, 'device.conf'), { key, port, gateway4: options.ipv4()?.gateway, ...view })
    if (prober?.address !== view.address) {
      prober?.running.stop()
      prober = { address: view.address, running: await startProber(view.address, options.onError) }
    }
    prober.running.setPeers(view.peers.map(peer => canonical(peer.address)))
  }
  const rotate = () =>
    mutex.take('device', async () => {
      key = await newKey(keyFile)
      await configure()
    })
  const checkKey = async () => {
    if ((await keyAgeMs(keyFile, Date.now())) > options.rotateAfterMs) await rotate()
  }
  const timer = setInterval(() => checkKey().catch(options.onError), rotationCheckMs)
  timer.unref()
  return {
    apply: next =>
      mutex.take('device', () => {
        view = next
        return configure()
      }),
    async observed() {
      const counters = await peerCounters(device)
      const peers = (view?.peers ?? []).map(
        (peer): PeerObserved => ({
          hostId: peer.hostId,
          ...(counters.get(peer.publicKey) ?? unknown),
          latencyMs: prober?.running.latencyMs(canonical(peer.address)) ?? null,
        }),
      )
      const ipv4 = options.ipv4()
      return { publicKey: key.publicKey, endpoint, peers, ...(ipv4 ? { ipv4 } : {}) }
    },
    rotate,
    async stop({ remove = false } = {}) {
      clearInterval(timer)
      await mutex.settled()
      prober?.running.stop()
      if (remove) await removeDevice(device)
    },
  }
}

const unknown: PeerCounters = { lastHandshakeAtMs: null, rxBytes: 0, txBytes: 0 }

/** Returns the address in the notation in which sockets report a sender's address. */
function canonical(address: string): string {
  const ip = parseIp(address)
  return ip ? formatIp(ip) : address
}

/** Parses an endpoint such as `192.0.2.1:51820` or `[2001:db8::1]:51820`. @throws Error if it is invalid */
export function parseEndpoint(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  const host = bracketed ?? plain
  if (!host || !(port > 0 && port <= 65_535))
    throw new Error(`"${text}" is not an address and UDP port such as 192.0.2.1:51820`)
  return { host, port }
}
