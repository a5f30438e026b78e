/** This host's part of the projects' private networks: applies and stores the network that the control plane sends. */
import { join } from 'node:path'
import type { Logger } from 'pino'
import { Value } from 'typebox/value'
import { HostNetwork, type NetworkObserved } from '../../contract/network.ts'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'
import { forwarder, hostResolvers } from '../dns/forward.ts'
import { type DnsClient, startResolver } from '../dns/server.ts'
import { type Mesh, type MeshOptions, openMesh } from '../mesh/mesh.ts'
import { StepError } from '../base/step-error.ts'
import type { NetworkPlan } from './addresses.ts'
import { evaluate } from './evaluate.ts'
import type { Network } from './net.ts'

export interface PrivateNetworkOptions {
  readonly dataDir: string
  readonly network: Network
  /** Settings of the mesh; undefined if this host is in no mesh. */
  readonly mesh: Pick<MeshOptions, 'device' | 'endpoint' | 'rotateAfterMs'> | undefined
  /** Returns the project and the firewall rules of a VM; undefined for a VM of no project, such as a build. */
  readonly desiredOf: (
    vmId: string,
  ) => { readonly projectId: string; readonly firewall?: NetworkPlan['firewall'] } | undefined
  /** Maximum number of DNS queries per second from one guest. */
  readonly queriesPerSecond: number
  /** Called when a guest exceeds `queriesPerSecond`. */
  readonly onRefused: (vmId: string) => void
  readonly log: Logger
}

export interface PrivateNetwork {
  /** Applies and stores the network that the control plane sends. @throws StepError `stale_version` */
  put(view: HostNetwork): Promise<NetworkObserved>
  observed(): Promise<NetworkObserved>
  stop(options: { readonly stopVms: boolean }): Promise<void>
}

/**
 * Opens the private networks with the stored network, so that names and tunnels work before the control plane connects.
 * If a part cannot start, heartbeats report the reason.
 */
export async function openPrivateNetwork(options: PrivateNetworkOptions): Promise<PrivateNetwork> {
  const { dataDir, network, log } = options
  const file = join(dataDir, 'network.json')
  const zones = new Map<string, DnsClient['names']>()
  let view: HostNetwork | undefined
  let error: string | null = null
  let addressError: string | null = null
  let mesh: Mesh | undefined
  const onError = (err: unknown) => log.warn({ err }, 'error in the private network')
  if (options.mesh)
    mesh = await openMesh({ dataDir, ...options.mesh, ipv4: () => network.ipv4, onError }).catch((cause: unknown) => {
      error = messageOf(cause)
      log.error({ err: cause }, 'the mesh cannot start on this host')
      return undefined
    })
  const openNamesHere = () =>
    openNames(options, zones, onError).catch((cause: unknown) => {
      error ??= `DNS queries of guests cannot be answered: ${messageOf(cause)}`
      log.error({ err: cause }, "the guests' DNS resolver cannot start")
      return undefined
    })
  let names = await openNamesHere()

  /** Switches to the guest addresses that the control plane assigned, if no guest has older ones. */
  const adopt = async ({ guests }: HostNetwork) => {
    if (guests === undefined || guests === network.ipv4?.guests) return
    try {
      const isNew = await network.adopt(guests)
      addressError = null
      if (!isNew) return
      log.info({ guests }, 'guests get addresses of the network that the control plane assigned to this host')
      await names?.stop()
      names = await openNamesHere()
      if (view) await mesh?.apply(view)
    } catch (cause) {
      if (addressError === null)
        log.error({ err: cause }, 'cannot use the addresses that the control plane assigned to this host')
      addressError = messageOf(cause)
    }
  }
  const apply = async (next: HostNetwork) => {
    zones.clear()
    for (const zone of next.zones)
      zones.set(zone.projectId, new Map(zone.names.map(({ name, addresses }) => [name, addresses])))
    await adopt(next)
    await network.allowGateways(next.peers.flatMap(peer => [peer.address, ...(peer.ipv4 ? [peer.ipv4.gateway] : [])]))
    await mesh?.apply(next)
    view = next
  }
  const mutex = createKeyedMutex()
  const put = async (next: HostNetwork) => {
    if (view && next.version < view.version)
      throw new StepError('stale_version', `version ${next.version} is older than ${view.version}, which this host has`)
    await apply(next)
    await writeFileAtomic(file, JSON.stringify(next), { durable: false })
    return observed()
  }
  const observed = async (): Promise<NetworkObserved> => ({
    hash: view?.hash ?? '',
    mesh: (await mesh?.observed().catch(onError)) ?? null,
    error: error ?? addressError,
  })
  const stored = parseStored(await readIfExists(file))
  if (stored) await apply(stored).catch(onError)
  return {
    put: next => mutex.take('network', () => put(next)),
    async observed() {
      // Each heartbeat tries to switch again: the switch waits while a guest still has an older address.
      const now = view
      if (now) await mutex.take('network', () => adopt(now))
      return observed()
    },
    async stop({ stopVms }) {
      await mutex.settled()
      await names?.stop()
      await mesh?.stop({ remove: stopVms })
    },
  }
}

const messageOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))

function parseStored(text: string | undefined): HostNetwork | undefined {
  if (text === undefined) return undefined
  try {
    const stored: unknown = JSON.parse(text)
    return Value.Check(HostNetwork, stored) ? stored : undefined
  } catch {
    return undefined // a power failure left an incomplete file: the control plane sends the configuration again
  }
}

const nothing: DnsClient['names'] = new Map()

async function openNames(
  { network, desiredOf, queriesPerSecond, onRefused }: PrivateNetworkOptions,
  zones: ReadonlyMap<string, DnsClient['names']>,
  onError: (error: unknown) => void,
) {
  const { resolver } = network
  if (resolver === undefined) return undefined
  const client = (address: string): DnsClient | undefined => {
    const vmId = network.vmAt(address)
    if (vmId === undefined) return undefined
    const desired = desiredOf(vmId)
    if (!desired) return { names: nothing, mayAskOthers: true } // a build is in no project's network
    const toResolver = { direction: 'outbound', protocol: 'udp', port: 53, remote: resolver } as const
    const mayAskOthers = evaluate(desired.firewall ?? { version: 0, rules: [] }, toResolver) !== 'deny'
    return { names: zones.get(desired.projectId) ?? nothing, mayAskOthers }
  }
  return startResolver({
    address: resolver,
    port: 53,
    client,
    forward: forwarder(hostResolvers()),
    queriesPerSecond,
    onRefused(address) {
      const vmId = network.vmAt(address)
      if (vmId !== undefined) onRefused(vmId)
    },
    onError,
  })
}
