/**
 * Tests the limits on a guest's use of its host's network with real packets. Network namespaces stand in for guests. In
 * each test one guest exceeds a limit, and its neighbor on the same host is not affected.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import packet from 'dns-packet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { itInAll, runsAll } from '../../../test/support/all-examples.ts'
import { CommandError, run } from '../../lib/exec.ts'
import { startResolver } from '../dns/server.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { networkPlan } from './addresses.ts'
import { Firewall } from './firewall.ts'
import { type GuestLimits, refusalKinds, refusalText, type RefusalKind } from '../base/network-limits.ts'
import { parseListing } from './listing.ts'
import type { Network, Nic } from './net.ts'
import { growthOf, refusalReporter } from './refusals.ts'
import { tapNetwork } from './tap.ts'
import { becomeGuest, type Place, place, shortName, wire } from '../../../test/support/agent/net.ts'

const why = process.getuid?.() === 0 ? '' : 'needs root'
const appPort = 8080
const internet = '203.0.113.6'
const limits: GuestLimits = {
  connections: 40,
  newConnections: 50,
  packets: 1_500,
  mibPerSecond: 1,
  nameQueries: 20,
}

interface Guest extends Place {
  readonly vmId: string
  readonly nic: Nic
}

describe.skipIf(why !== '')(`limits of a guest's network use ${why}`, () => {
  const stack = new AsyncDisposableStack()
  const refused = new Map<string, number>()
  let network: Network
  let next = ''
  let outside: Place
  let quiet: Guest
  let count = 0

  const guest = async (): Promise<Guest> => {
    const made = stack.use(await place(shortName('ml')))
    next = made.name
    const vmId = `limited-${++count}`
    const rules = [
      {
        id: 'open',
        direction: 'inbound',
        protocol: 'any',
        portStart: 0,
        portEnd: 65_535,
        action: 'allow',
        cidr: null,
      },
    ] as const
    const plan = networkPlan({
      port: appPort,
      ipv6Address: `fd77:3:1:1::${count}`,
      firewall: { version: 1, rules: [...rules] },
    })
    const nic = await network.connect(vmId, appPort, plan)
    stack.defer(() => network.release(vmId))
    await becomeGuest(made, nic)
    await made.listen(appPort)
    return { ...made, vmId, nic }
  }
  const refusedOf = (vm: Guest, kind: RefusalKind) => refused.get(`${vm.vmId} ${kind}`) ?? 0
  /** Asserts that the guest has exceeded this limit, and its neighbor none. */
  const isAtLimit = async (vm: Guest, kind: RefusalKind) => {
    expect(await quiet.reaches({ host: internet, port: appPort, protocol: 'udp' })).toBe(true)
    expect(await quiet.reaches({ host: internet, port: appPort })).toBe(true)
    await until(() => refusedOf(vm, kind) > 0, { what: `${kind} counted` })
    expect([...refused.keys()].filter(key => key.startsWith(`${quiet.vmId} `))).toEqual([])
  }
  /** Floods repeatedly: on a busy host a single flood may be slow enough to stay below the limit. */
  const floodUntil = (vm: Guest, kind: RefusalKind, flood: () => Promise<number>) =>
    until(async () => (await flood()) >= 0 && refusedOf(vm, kind) > 0, { what: `${kind} counted` })
  const web = { host: internet, port: appPort }

  beforeAll(async () => {
    const dir = stack.use(await testDir())
    network = await tapNetwork({
      dataDir: dir.path,
      subnet: '10.213.0.0/16',
      healEveryMs: 250,
      limits,
      onRefused: (vmId, kind, many) => {
        refused.set(`${vmId} ${kind}`, (refused.get(`${vmId} ${kind}`) ?? 0) + many)
      },
      onUnlimited: reason => expect.unreachable(String(reason)),
      makeDevice: name => `link add dev ${name} type veth peer name eth0 netns ${next}`,
    })
    stack.defer(() => network.close())
    outside = stack.use(await place(shortName('mp')))
    await wire(outside, shortName('vp'), { host: ['203.0.113.5/30'], outside: [`${internet}/30`] })
    await outside.ip('route', 'add', '10.213.0.0/16', 'via', '203.0.113.5')
    await outside.listen(appPort)
    quiet = await guest()
  }, 120_000)
  afterAll(() => stack.disposeAsync())

  it('at most N connections that a guest opens are tracked at once', async () => {
    const loud = await guest()
    expect(await loud.flood(web, { sockets: 90 })).toBe(limits.connections)
    await isAtLimit(loud, 'connections')
  })

  it('at most N connections to a guest are tracked at once', async () => {
    const loud = await guest()
    const app = { host: loud.nic.guest.ip, port: appPort }
    expect(await outside.flood(app, { sockets: 90 })).toBe(limits.connections)
    expect(await loud.reaches(web), 'those that it opens have a count of their own').toBe(true)
    expect(await outside.reaches({ host: quiet.nic.guest.ip, port: appPort })).toBe(true)
    await isAtLimit(loud, 'connections')
  })

  // Not in `npm test`: limits-vm.test.ts covers this with a real VM.
  itInAll('new connections per second are limited in both directions', async () => {
    const [loud, busy] = [await guest(), await guest()]
    await floodUntil(loud, 'new_connections', () => loud.flood(web, { sockets: 400 }))
    const app = { host: busy.nic.guest.ip, port: appPort }
    await floodUntil(busy, 'new_connections', () => outside.flood(app, { sockets: 400 }))
    await isAtLimit(loud, 'new_connections')
    await isAtLimit(busy, 'new_connections')
  })

  // `npm test` runs only the first rate, `npm run test:all` all of them: the same kind of rule limits each.
  const rates = [
    ['packets', { times: 4_000 }],
    ['traffic', { times: 1_450, message: Buffer.alloc(1_400, 'x') }],
  ] as const
  it.each(runsAll ? rates : rates.slice(0, 1))('the rate of %s is limited in both directions', async (kind, much) => {
    const [loud, busy] = [await guest(), await guest()]
    await floodUntil(loud, kind, () => loud.flood(web, much))
    await floodUntil(busy, kind, () => outside.flood({ host: busy.nic.guest.ip, port: appPort }, much))
    await isAtLimit(loud, kind)
    await isAtLimit(busy, kind)
  })

  // Not in `npm test`: the rate of packets covers this.
  itInAll('the rate of fragments and the rate of multicasts are limited', async () => {
    const [loud, busy] = [await guest(), await guest()]
    const message = Buffer.alloc(4_000, 'x')
    await floodUntil(loud, 'packets', () => loud.flood(web, { times: 130, message }))
    await isAtLimit(loud, 'packets')
    await floodUntil(busy, 'packets', () => busy.flood({ host: 'ff02::1%eth0', port: 9 }, { times: 300 }))
    await isAtLimit(busy, 'packets')
  })

  // Not in `npm test`: the rate of packets covers this.
  itInAll('DNS queries above the limit are dropped, and all others are answered', async () => {
    const loud = await guest()
    const address = network.resolver ?? ''
    const client = () => ({ names: new Map(), mayAskOthers: false })
    const forward = async () => expect.unreachable('nobody may ask others')
    const resolver = await startResolver({
      address,
      port: 53,
      client,
      forward,
      queriesPerSecond: 1_000,
      onError: () => undefined,
    })
    stack.defer(() => resolver.stop())
    const query = packet.encode({ type: 'query', id: 7, questions: [{ type: 'A', name: 'example.com' }] })
    const names = { host: address, port: 53 }
    const answered = await loud.flood(names, { times: 350, message: query })
    expect(answered).toBeGreaterThan(0)
    expect(answered).toBeLessThan(350)
    expect(await quiet.flood(names, { message: query })).toBe(1)
    await isAtLimit(loud, 'names')
  })

  // Not in `npm test`: the rate of packets covers this.
  itInAll('the rate of neighbor requests is limited for ARP and IPv6', async () => {
    const loud = await guest()
    const asksAgain = async (gateway: string, host: string) => {
      const floods: Promise<number>[] = []
      const ask = async () => {
        for (let n = 0; n < 15; n++) {
          await loud.ip('neigh', 'flush', 'to', gateway, 'dev', 'eth0')
          floods.push(loud.flood({ host, port: appPort }, {}))
        }
      }
      // Run six loops at once. On a busy machine, a single loop stays below the limit, because each request starts a
      // program.
      await Promise.all(Array.from({ length: 6 }, ask))
      await Promise.all(floods)
    }
    await asksAgain(loud.nic.guest.gateway6 ?? '', quiet.nic.guest.ip6 ?? '')
    await isAtLimit(loud, 'neighbors')
    await asksAgain(loud.nic.guest.gateway, internet)
    const table = `mote_${loud.nic.tap?.[4]}`
    const byArp = parseListing(await run('nft', ['-j', 'list', 'table', 'arp', table])).counts.get('refused_neighbors')
    expect(byArp?.get(loud.nic.tap ?? '')).toBeGreaterThan(0)
    expect(byArp?.get(quiet.nic.tap ?? '')).toBeUndefined()
  })

  const tracked = '/proc/net/nf_conntrack'
  it.skipIf(!existsSync(tracked))('a closed connection leaves the tracking table within 10 s', async () => {
    const vm = await guest()
    await vm.reaches(web)
    const lines = async () =>
      (await readFile(tracked, 'utf8')).split('\n').filter(line => line.includes(`src=${vm.nic.guest.ip} `))
    const closed = await until(async () => (await lines()).find(line => line.includes('TIME_WAIT')), {
      what: 'it is closed',
    })
    expect(Number(/tcp +6 (\d+) /.exec(closed)?.[1])).toBeLessThanOrEqual(10)
  })
})

it('on a kernel that cannot count connections, the firewall rules are loaded without limits', async () => {
  const loaded: string[] = []
  const nft = async (_program: string, args: readonly string[], { input = '' } = {}) => {
    if (args.includes('list')) return '{"nftables": []}'
    if (input.includes('ct count'))
      throw new CommandError('nft', 1, 'Could not process rule: No such file or directory')
    loaded.push(input)
    return ''
  }
  const addresses = { guests: '10.213.0.0/20', probe: '10.213.15.254', resolver: '10.213.15.255' }
  const firewall = new Firewall({ ...addresses, slot: 0, allowed: [], denied: [], limits }, nft)
  expect(await firewall.open()).toBeInstanceOf(CommandError)
  await firewall.change({ ...addresses, slot: 0, allowed: [], denied: [], limits })
  await firewall.close()
  expect(loaded).toHaveLength(3)
  expect(loaded.join('')).toContain('antispoof')
  expect(loaded.join('')).not.toMatch(/limit rate|arp/)
})

describe('refused packets of a guest', () => {
  it('only the growth of a counter is reported, and all of it after the counter was reset', () => {
    const growth = growthOf()
    const read = (count: number) => growth([{ tap: 'a', kind: 'packets', count }]).map(one => one.count)
    expect([read(5), read(5), read(9), read(2), read(0)]).toEqual([[5], [], [4], [2], []])
  })

  it('each kind of refusal is counted immediately, and logged at most once a minute with the total since then', () => {
    let nowMs = 0
    const said: string[] = []
    const counted: number[] = []
    const report = refusalReporter({
      limits,
      nowMs: () => nowMs,
      say: (vmId, line) => void said.push(`${vmId} ${line}`),
      onCount: (_kind, count) => void counted.push(count),
    })
    report('a', 'connections', 3)
    report('a', 'connections', 4)
    report('b', 'connections', 1)
    report('a', 'names', 2)
    nowMs = 59_999
    report('a', 'connections', 5)
    nowMs = 60_000
    report('a', 'connections', 6)
    expect(said).toEqual([
      `a ${refusalText('connections', 3, limits)}`,
      `b ${refusalText('connections', 1, limits)}`,
      `a ${refusalText('names', 2, limits)}`,
      `a ${refusalText('connections', 15, limits)}`,
    ])
    expect(counted).toEqual([3, 4, 1, 2, 5, 6])
  })

  it.each(refusalKinds)('the log line for the kind %s is one sentence with the number of refusals', kind => {
    expect(refusalText(kind, 4711, limits)).toMatch(/^[A-Z].*4711 [A-Za-z ]+$/)
  })
})
