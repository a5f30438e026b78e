/**
 * Publishes network configurations to hosts. NOTIFY wakes the publisher with the changed project, and every second it
 * compares each host's reported hash with the desired one. Every control plane does this; a repeated message has no
 * effect on a host.
 */
import { BusError, type Subscription } from '../../bus/bus.ts'
import type { HostNetwork, NetworkObserved } from '../../contract/network.ts'
import { subjects } from '../../contract/agent.ts'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { currentNetworks } from './current.ts'
import type { MeshHost, Networks } from './hosts.ts'
import { freeSlice } from './guest-networks.ts'
import { adoptPrefix, assignGuestNetwork, recordMeshHost, releaseGuestNetworks } from './network-store.ts'

const pollEveryMs = 1_000
const answerMs = 4_000
type PublisherDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'log'> & { readonly live: LiveStats }

export async function startNetworkPublisher(deps: PublisherDeps): Promise<Subscription> {
  if (deps.config.ipv6Prefix !== undefined) await adoptPrefix(deps.db, deps.config.ipv6Prefix)
  const current = currentNetworks(deps.db)
  let running: Promise<void> | undefined
  let again = false
  let stopped = false
  /**
   * For each host, the hash of the message to which the host has not responded yet, so that a slow host does not get
   * the same message twice.
   */
  const underWay = new Map<string, string>()

  const send = async (hostId: string, network: HostNetwork) => {
    if (underWay.get(hostId) === network.hash) return
    underWay.set(hostId, network.hash)
    try {
      await deps.bus.request(subjects.hostIn(hostId, 'network.put'), network, { timeoutMs: answerMs })
    } catch (cause) {
      // Another control plane has sent the host a newer version than this control plane has read, so read again.
      if (cause instanceof BusError && cause.remoteCode === 'stale_version') current.changed()
      deps.log.debug({ err: cause, hostId }, 'could not send a host its networks; retrying')
    } finally {
      if (underWay.get(hostId) === network.hash) underWay.delete(hostId)
    }
  }
  const publishChanges = async () => {
    do {
      again = false
      const observed = deps.live.networks()
      if (await recordKeys(deps, observed, current.known())) current.changed()
      if (await giveNetworks(deps, await current.read())) current.changed()
      const now = await current.read()
      for (const [hostId, { hash }] of observed) {
        const network = now.of(hostId)
        if (network.hash !== hash) void send(hostId, network)
      }
    } while (again && !stopped)
  }
  const poke = () => {
    again = true
    running ??= publishChanges()
      .catch((cause: unknown) => deps.log.warn({ err: cause }, 'could not update the private networks'))
      .finally(() => {
        running = undefined
      })
  }
  const listening = await deps.db.listen('network', projectId => {
    current.changed(projectId === '' ? undefined : projectId)
    poke()
  })
  const timer = setInterval(poke, pollEveryMs)
  return {
    async stop() {
      stopped = true
      clearInterval(timer)
      await listening.stop()
      await running
    },
  }
}

/** Records changed public keys and endpoints of hosts. Returns true if any changed. */
async function recordKeys(
  { db }: Pick<PublisherDeps, 'db'>,
  observed: ReadonlyMap<string, NetworkObserved>,
  networks: Pick<Networks, 'meshHosts'> | undefined,
): Promise<boolean> {
  const known = new Map(networks?.meshHosts.map(host => [host.hostId, JSON.stringify(meshHost(host))]))
  let changed = 0
  for (const [hostId, { mesh }] of observed) {
    if (!mesh) continue
    const host = meshHost({ hostId, ...mesh, ipv4: mesh.ipv4 ?? null })
    if (known.get(hostId) !== JSON.stringify(host)) changed += await recordMeshHost(db, host)
  }
  return changed > 0
}

/** Assigns a guest network to each host of the mesh without one. Returns true if any host got one. */
async function giveNetworks(
  { db, config, log }: Pick<PublisherDeps, 'db' | 'config' | 'log'>,
  { meshHosts }: Pick<Networks, 'meshHosts'>,
): Promise<boolean> {
  const without = meshHosts.filter(host => host.assigned === null)
  if (without.length === 0) return false
  await releaseGuestNetworks(db)
  const taken = meshHosts.flatMap(({ assigned, ipv4 }) => [
    ...(assigned ? [assigned] : []),
    ...(ipv4 ? [ipv4.guests] : []),
  ])
  let given = 0
  for (const { hostId } of without) {
    const guests = freeSlice(config.guestNetwork, taken)
    if (guests === undefined) {
      log.warn(
        { hostId, network: config.guestNetwork },
        'no guest network is free for a host, so gateways on other hosts cannot reach its guests; enlarge MOTE_GUEST_NETWORK',
      )
      break
    }
    taken.push(guests)
    if (await assignGuestNetwork(db, hostId, guests)) given++
  }
  return given > 0
}

/** Returns the host with its properties in a fixed order, so that the JSON text can be compared. */
const meshHost = ({ hostId, publicKey, endpoint, ipv4 }: Omit<MeshHost, 'assigned'>): Omit<MeshHost, 'assigned'> => ({
  hostId,
  publicKey,
  endpoint,
  ipv4: ipv4 && { guests: ipv4.guests, gateway: ipv4.gateway },
})
