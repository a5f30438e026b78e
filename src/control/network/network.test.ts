/**
 * Tests the network messages for hosts, which are derived from database rows, and the hosts' measurements in the API.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type HostHeartbeat, subjects } from '../../contract/agent.ts'
import { HostNetwork, type NetworkObserved } from '../../contract/network.ts'
import { Value } from 'typebox/value'
import { newId } from '../../lib/ids.ts'
import { testSystem, type TestSystem, type TestUser } from '../../../test/support/system.ts'
import { promisedMs, until } from '../../../test/support/wait.ts'
import { freeSlice } from './guest-networks.ts'
import { hostNetworks, meshAddress, networksOf, type NetworkState } from './hosts.ts'
import { type MeshInput, meshStatus } from './mesh.ts'
import { adoptPrefix } from './network-store.ts'

const prefix = 'fd12:3456:789a::/48'
const state: NetworkState = {
  version: 1,
  prefix,
  vms: [
    { projectId: 'p1', hostId: 'a', address: 'fd12:3456:789a:1::1' },
    { projectId: 'p1', hostId: 'b', address: 'fd12:3456:789a:1::2' },
    { projectId: 'p2', hostId: 'b', address: 'fd12:3456:789a:2::1' },
    { projectId: 'p1', hostId: 'c', address: 'fd12:3456:789a:1::3' },
  ],
  names: [
    { projectId: 'p1', name: 'web', addresses: ['fd12:3456:789a:1::2', 'fd12:3456:789a:1::1'] },
    { projectId: 'p2', name: 'web', addresses: ['fd12:3456:789a:2::1'] },
  ],
  meshHosts: ['a', 'b'].map((hostId, n) => ({
    hostId,
    publicKey: `key of ${hostId}`,
    endpoint: `${hostId}:51820`,
    ipv4: { guests: `10.2${n}.0.0/20`, gateway: `10.2${n}.15.255` },
    assigned: null,
  })),
}

describe('the network message for one host', () => {
  const all = hostNetworks(state, ['a', 'b', 'c', 'empty'])

  it('contains only projects with VMs on the host', () => {
    expect(all.get('a')?.zones.map(zone => zone.projectId)).toEqual(['p1'])
    expect(all.get('b')?.zones.map(zone => zone.projectId)).toEqual(['p1', 'p2'])
    expect(JSON.stringify(all.get('a'))).not.toContain('789a:2::')
    expect(all.get('empty')?.zones).toEqual([])
  })

  it('contains routes to VMs on other hosts of the mesh, but not to VMs on the host itself', () => {
    expect(all.get('a')?.peers.map(({ hostId, vmAddresses }) => [hostId, vmAddresses])).toEqual([
      ['b', ['fd12:3456:789a:1::2']],
    ])
    expect(all.get('c')?.peers, 'a host without a key').toEqual([])
  })

  it('has the same hash for the same content, whatever the order of the rows', () => {
    const hash = (change: Partial<NetworkState>) => hostNetworks({ ...state, ...change }, ['a']).get('a')?.hash
    expect(hash({ version: 2, vms: state.vms.toReversed(), names: state.names.toReversed() })).toBe(all.get('a')?.hash)
    expect(hash({ vms: state.vms.filter(vm => vm.projectId !== 'p2') })).toBe(all.get('a')?.hash)
    expect(hash({ vms: state.vms.slice(0, 1) })).not.toBe(all.get('a')?.hash)
  })

  it('contains IPv4 routes to guests of other hosts, but none if two hosts have the same guest network', () => {
    expect(all.get('a')?.peers[0]?.ipv4).toEqual({ guests: '10.21.0.0/20', gateway: '10.21.15.255' })
    const same = state.meshHosts.map(host => ({ ...host, ipv4: { guests: '10.20.0.0/16', gateway: '10.20.15.255' } }))
    expect(hostNetworks({ ...state, meshHosts: same }, ['a']).get('a')?.peers[0]).not.toHaveProperty('ipv4')
  })

  it('contains the guest network that is assigned to the host', () => {
    const [first, ...rest] = state.meshHosts
    const given = { ...first!, assigned: '10.192.16.0/20' }
    const reported = hostNetworks({ ...state, meshHosts: [given, ...rest] }, ['a', 'b', 'c'])
    expect([...reported.values()].map(({ guests }) => guests)).toEqual(['10.192.16.0/20', undefined, undefined])
    expect(reported.get('a')?.hash).not.toBe(all.get('a')?.hash)
  })

  it('contains an address of the host that is unique in the first /64', () => {
    expect(meshAddress(prefix, 'a')).toMatch(/^fd12:3456:789a:0:/)
    expect(meshAddress(prefix, 'a')).not.toBe(meshAddress(prefix, 'b'))
  })
})

describe('a read of the rows of some projects', () => {
  const hosts = ['a', 'b', 'c', 'd']
  const projects = ['p1', 'p2', 'p3']
  const content = (from: { of(hostId: string): HostNetwork }) => hosts.map(id => ({ ...from.of(id), version: 0 }))
  const rowsOf = <T extends { readonly projectId: string }>(rows: readonly T[], of: readonly string[]) =>
    rows.filter(row => of.includes(row.projectId))

  it.each(
    // For each case: the hosts with VMs of p1 and of p2 before the change, then after it, with one letter per host. The
    // VM of p3 stays on host c.
    [
      ['one project moves', 'ab', 'b', 'cb', 'b'],
      ['one project disappears', 'ab', 'b', '', 'b'],
      ['one project appears', '', 'b', 'aad', 'b'],
      ['two projects change', 'ab', 'bc', 'b', 'ad'],
    ],
  )('gives the same network messages as a read of all projects: %s', (_what, ...places) => {
    const [before1, before2, after1, after2] = places.map(text => text.split('').filter(one => one !== ''))
    const rows = (one: readonly string[] = [], two: readonly string[] = []) => ({
      vms: [one, two, ['c']].flatMap((on, p) =>
        on.map((hostId, n) => ({ projectId: projects[p] ?? '', hostId, address: `fd12:3456:789a:${p}::${n}` })),
      ),
      names: projects.map((projectId, p) => ({
        projectId,
        name: `web-${[one, two, ['c']][p]?.join('')}`,
        addresses: [],
      })),
    })
    const now = { ...state, ...rows(after1, after2), version: 2 }
    const networks = networksOf({ ...state, ...rows(before1, before2) })
    content(networks)
    const changed = ['p1', 'p2']
    networks.replace(changed, { version: 2, vms: rowsOf(now.vms, changed), names: rowsOf(now.names, changed) })
    expect(content(networks)).toEqual(content(networksOf(now)))
  })

  it('rebuilds only the network messages for hosts with VMs of these projects before or after the change, with the new version', () => {
    const networks = networksOf(state)
    const before = new Map(hosts.map(id => [id, networks.of(id)]))
    const moved = [{ projectId: 'p2', hostId: 'd', address: 'fd12:3456:789a:2::1' }]
    networks.replace(['p2'], { version: 7, vms: moved, names: rowsOf(state.names, ['p2']) })
    expect(hosts.filter(id => networks.of(id) !== before.get(id))).toEqual(['b', 'd'])
    expect(['a', 'b', 'd'].map(id => networks.of(id).version)).toEqual([1, 7, 7])
    expect(networks.of('b').zones.map(zone => zone.projectId)).toEqual(['p1'])
  })
})

describe('guest networks of hosts', () => {
  it.each([
    ['the first', [], '10.192.0.0/20'],
    ['the next', ['10.192.0.0/20'], '10.192.16.0/20'],
    ['a released one', ['10.192.0.0/20', '10.192.32.0/20'], '10.192.16.0/20'],
    ['not one that an operator chose', ['10.192.0.0/16', '10.193.0.0/16'], '10.194.0.0/20'],
    ['not a part of one that an operator chose', ['10.192.0.0/26', '10.192.16.0/20'], '10.192.32.0/20'],
  ])('are chosen from the free ones: %s', (_what, taken, expected) =>
    expect(freeSlice('10.192.0.0/10', taken)).toBe(expected),
  )

  it('a /12 contains 240 guest networks, because the default networks of agents are left out', () => {
    const taken: string[] = []
    for (let slice = freeSlice('10.208.0.0/12', taken); slice; slice = freeSlice('10.208.0.0/12', taken))
      taken.push(slice)
    expect(new Set(taken).size).toBe(256 - 16)
    expect(taken.filter(slice => slice.startsWith('10.213.'))).toEqual([])
  })
})

describe('the mesh status of hosts', () => {
  const peers = (latencies: Record<string, number | null>): NetworkObserved => ({
    hash: '',
    error: null,
    mesh: {
      publicKey: 'k',
      endpoint: 'e',
      peers: Object.entries(latencies).map(([hostId, latencyMs]) => ({
        hostId,
        latencyMs,
        lastHandshakeAtMs: 1_000,
        rxBytes: 10,
        txBytes: 20,
      })),
    },
  })
  const statuses = (observed: MeshInput['observed']) => {
    const ids = ['a', 'b', 'c']
    const hosts = ids.map(id => ({ id, name: id }))
    const meshHosts = ids.map(hostId => ({ hostId, publicKey: 'k', endpoint: 'e', ipv4: null, assigned: null }))
    return meshStatus({ prefix, hosts, meshHosts, observed, isAdmin: false })
  }
  const names = (observed: MeshInput['observed']) => statuses(observed).nodes.map(node => node.status)

  it.each<[string, Record<string, NetworkObserved>, string[]]>([
    ['all well', { a: peers({ b: 1, c: 1 }), b: peers({ a: 1, c: 1 }), c: peers({ a: 1, b: 1 }) }, ['up', 'up', 'up']],
    [
      'one link cut, in one direction',
      { a: peers({ b: null, c: 1 }), b: peers({ a: 1, c: 1 }), c: peers({ a: 1, b: 1 }) },
      ['degraded', 'degraded', 'up'],
    ],
    [
      'one cut off',
      { a: peers({ b: null, c: null }), b: peers({ a: null, c: 1 }), c: peers({ a: null, b: 1 }) },
      ['unreachable', 'degraded', 'degraded'],
    ],
    ['one silent', { a: peers({ b: 1 }), b: peers({ a: 1 }) }, ['up', 'up', 'down']],
    [
      'one broken',
      { a: peers({ b: 1 }), b: peers({ a: 1 }), c: { hash: '', mesh: null, error: 'no wg' } },
      ['up', 'up', 'failed'],
    ],
  ])('is derived from the reports of all hosts: %s', (_what, observed, expected) =>
    expect(names(new Map(Object.entries(observed)))).toEqual(expected),
  )

  it('contains the sums of traffic and the median of latencies', () => {
    const observed = new Map(
      Object.entries({ a: peers({ b: 1, c: 3 }), b: peers({ a: 5, c: 2 }), c: peers({ a: 9, b: 2 }) }),
    )
    expect(statuses(observed).nodes[0]).toMatchObject({
      rx_bytes: 20,
      tx_bytes: 40,
      latency_ms: 9,
      last_handshake_at: '1970-01-01T00:00:01.000Z',
    })
  })
})

describe('private networks over the API', () => {
  let system: TestSystem
  let admin: TestUser
  let user: TestUser
  beforeAll(async () => {
    system = await testSystem()
    admin = await system.user()
    user = await system.user()
  })
  afterAll(async () => system[Symbol.asyncDispose]())

  it('a host gets only the names of projects with VMs on it', async () => {
    await user.post('/v1/apps', { name: 'shop', git_url: '' })
    await user.post('/v1/apps/shop/deploy', { image: 'example/app:1' })
    const file = join(system.dir, 'host-1', 'network.json')
    const view = async () => Value.Parse(HostNetwork, JSON.parse(await readFile(file, 'utf8')))
    const named = async () =>
      (await view()).zones.find(zone => zone.names.some(({ addresses }) => addresses.length > 0))
    const zone = await until(named, { what: 'the host knows the name' })
    const prefixOfUser = String((await user.get('/v1/auth/me')).body.vpc_ipv6_prefix).replace('::/64', '')
    expect(zone.names).toEqual([{ name: 'shop', addresses: [expect.stringContaining(prefixOfUser)] }])
    await user.delete('/v1/apps/shop')
    await until(async () => (await view()).zones.length === 0, { what: 'the host forgets it' })
  })

  it('the mesh status shows measurements to all users and addresses only to administrators, and a partition appears in its stream', async () => {
    const hosts = [await simulated(system, 'sim-a'), await simulated(system, 'sim-b')]
    const nodes = async (who: TestUser) => (await who.get('/v1/networking/mesh')).body.nodes
    const status = async () =>
      (await nodes(user))
        .filter((node: { name: string }) => node.name.startsWith('sim-'))
        .map((node: { status: string }) => node.status)
    await until(async () => (await status()).join() === 'up,up', { what: 'both are up' })
    // Both hosts report the guest network 10.35.0.0/20, and each gets a network of its own assigned.
    const given = hosts.map(host => host.reported()?.guests ?? '')
    expect(given.toSorted()).toEqual(['10.192.0.0/20', '10.192.16.0/20'])
    const [hidden] = await nodes(user)
    expect([hidden.address, hidden.public_key, hidden.endpoint]).toEqual([null, null, null])
    const shown = (await nodes(admin)).find((node: { name: string }) => node.name === 'sim-a')
    expect(shown).toMatchObject({ public_key: 'key of sim-a', endpoint: 'sim-a:51820', latency_ms: 2, rx_bytes: 7 })

    const end = new AbortController()
    const events = user.events('/v1/networking/mesh/stream', end.signal)
    expect((await events.next()).value?.event).toBe('snapshot')
    for (const host of hosts) host.latencyMs = null
    const startedMs = performance.now()
    for await (const { event, data } of events) {
      expect(event).toBe('mesh')
      if (JSON.stringify(data).match(/unreachable/g)?.length === 2) break
    }
    expect(performance.now() - startedMs).toBeLessThan(promisedMs(5_000))
    end.abort()
    for (const host of hosts) host.latencyMs = 3
    await until(async () => (await status()).join() === 'up,up', { what: 'it has healed' })
    for (const host of hosts) host.stop()
  })

  it('a heartbeat in the name of another host is ignored', async () => {
    const liar = await simulated(system, 'liar')
    const [victim] = (await admin.get('/v1/networking/mesh')).body.nodes
    await system.bus.publish(subjects.heartbeat(liar.id), {
      ...liar.heartbeat(),
      hostId: victim.host_id,
      name: 'stolen',
    })
    await until(
      async () =>
        (await admin.get('/v1/networking/mesh')).body.nodes.some((node: { name: string }) => node.name === 'liar'),
      { what: 'its own heartbeats are accepted' },
    )
    expect(
      (await admin.get('/v1/networking/mesh')).body.nodes.map((node: { name: string }) => node.name),
    ).not.toContain('stolen')
    liar.stop()
  })

  it('new projects get networks from the configured prefix', async () => {
    await adoptPrefix(system.database.db, '2001:db8:77::/48')
    const { body } = await (await system.user()).get('/v1/auth/me')
    expect(body.vpc_ipv6_prefix).toMatch(/^2001:db8:77:[0-9a-f]+::\/64$/)
    expect((await user.get('/v1/auth/me')).body.vpc_ipv6_prefix, 'existing projects keep their network').toMatch(/^fd/)
  })
})

/** Starts a simulated host that sends heartbeats as a member of a mesh with the other simulated hosts. */
async function simulated(system: TestSystem, name: string) {
  const id = newId()
  let reported: HostNetwork | undefined
  await system.bus.serve(subjects.hostIn(id, 'network.put'), data => {
    reported = Value.Parse(HostNetwork, data)
    return {}
  })
  const host = {
    id,
    latencyMs: 2 as number | null,
    heartbeat: (): HostHeartbeat => ({
      hostId: id,
      name,
      incarnation: 'i',
      version: '0',
      arch: 'x64',
      vcpus: 1,
      memoryMib: 1,
      diskMib: 1,
      hypervisors: [],
      network: 'tap',
      vms: null,
      stats: [],
      privateNetwork: {
        hash: reported?.hash ?? '',
        error: null,
        mesh: {
          publicKey: `key of ${name}`,
          endpoint: `${name}:51820`,
          ipv4: { gateway: '10.30.0.1', guests: `10.3${name.length}.0.0/20` },
          peers: (reported?.peers ?? []).map(peer => ({
            hostId: peer.hostId,
            lastHandshakeAtMs: 1,
            rxBytes: 7,
            txBytes: 8,
            latencyMs: host.latencyMs,
          })),
        },
      },
    }),
    reported: () => reported,
    stop: () => clearInterval(timer),
  }
  const timer = setInterval(() => void system.bus.publish(subjects.heartbeat(id), host.heartbeat()), 200)
  return host
}
