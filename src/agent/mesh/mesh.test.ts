/** Tests the mesh: two hosts in network namespaces, a guest behind each, and a real WireGuard tunnel between them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { promisedMs, until } from '../../../test/support/wait.ts'
import type { MeshPeer, NetworkObserved } from '../../contract/network.ts'
import { run } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'
import type { Nic } from '../net/net.ts'
import { becomeGuest, type Place, place, shortName } from '../../../test/support/agent/net.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { parseEndpoint } from './mesh.ts'

const root = process.getuid?.() === 0
const needed = ['wg', 'tcpdump']
const missing = (await Promise.all(needed.map(hasProgram))).flatMap((there, at) => (there ? [] : [needed[at]]))
const why = !root ? 'needs root' : missing.length === 0 ? '' : `needs ${missing.join(', ')}`
const child = fileURLToPath(new URL('../../../test/support/agent/mesh-child.ts', import.meta.url))
const hosts = 'fd77:0:0:0'
const project = 'fd77:0:0:1'

type Observed = NonNullable<NetworkObserved['mesh']>

describe.skipIf(why !== '')(`the mesh ${why}`, { timeout: 60_000 }, () => {
  const stack = new AsyncDisposableStack()
  let one: Host
  let two: Host

  interface Host {
    readonly id: string
    readonly place: Place
    readonly guest: Place
    readonly nic: Nic
    readonly dir: string
    readonly address: string
    ask<T = unknown>(verb: string, data?: unknown): Promise<T>
    observed(): Promise<Observed>
  }

  const host = async (number: number): Promise<Host> => {
    const dir = stack.use(await testDir()).path
    const where = stack.use(await place(shortName('mh')))
    const address = `192.0.2.${number}`
    if (number === 1) await where.ip('link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'other')
    else {
      await one.place.ip('link', 'set', 'other', 'netns', where.name)
      await where.ip('link', 'set', 'other', 'name', 'eth0')
    }
    await where.ip('addr', 'add', `${address}/24`, 'dev', 'eth0')
    await where.ip('link', 'set', 'eth0', 'up')
    const program = [
      'netns',
      'exec',
      where.name,
      process.execPath,
      child,
      dir,
      `${address}:51820`,
      `10.21${number}.0.0/16`,
    ]
    const running = spawn('ip', program, { stdio: ['pipe', 'pipe', 'inherit'] })
    stack.defer(() => void running.kill('SIGKILL'))
    const ask = requests(running)
    stack.defer(() => ask('stop', { remove: true }).then(() => undefined))
    const guest = stack.use(await place(shortName('mg')))
    const vm = { vmId: `vm${number}`, place: guest.name, ipv6Address: `${project}::${number}` }
    const nic = (await ask('connect', vm)) as Nic
    await becomeGuest(guest, nic)
    await guest.listen(8080)
    return {
      id: `host-${number}`,
      place: where,
      guest,
      nic,
      dir,
      address: `${hosts}::${number}`,
      ask: async <T>(verb: string, data?: unknown) => (await ask(verb, data)) as T,
      observed: async () => (await ask('observed')) as Observed,
    }
  }
  const peer = async (of: Host): Promise<MeshPeer> => {
    const { publicKey, endpoint, ipv4 } = await of.observed()
    const vmAddresses = [of.nic.guest.ip6 ?? '']
    return { hostId: of.id, publicKey, endpoint, address: of.address, vmAddresses, ...(ipv4 ? { ipv4 } : {}) }
  }
  /** Sends each host its peers, as the control plane does when a key or a VM has changed. */
  const introduce = async () => {
    await one.ask('apply', { address: one.address, peers: [await peer(two)] })
    await two.ask('apply', { address: two.address, peers: [await peer(one)] })
  }
  const latency = async (of: Host) => (await of.observed()).peers[0]?.latencyMs ?? null
  const linked = (what: string) =>
    until(async () => (await latency(one)) !== null && (await latency(two)) !== null, { what, timeoutMs: 10_000 })

  beforeAll(async () => {
    one = await host(1)
    two = await host(2)
    await introduce()
    await linked('both ends answer')
  }, 120_000)
  afterAll(() => stack.disposeAsync())

  it('carries a TCP stream between VMs on two hosts, with packets of maximum size', async () => {
    const bytes = 8 << 20
    const to = { host: two.nic.guest.ip6 ?? '', port: 8080 }
    expect(await one.guest.stream(to, bytes)).toBe(`got ${bytes}`)
    const [observed] = (await one.observed()).peers
    expect(observed?.txBytes).toBeGreaterThan(bytes)
    expect(observed?.lastHandshakeAtMs).toBeGreaterThan(Date.now() - 60_000)
    expect(observed?.latencyMs).toBeLessThan(1_000)
  })

  it("encrypts a VM's traffic, which is readable only inside the tunnel", async () => {
    const said = Buffer.alloc(64, 'x')
    const captured = async (device: string) => {
      const options = ['-i', device, '-U', '-s', '0', '-w', '-']
      const capture = spawn('ip', ['netns', 'exec', two.place.name, 'tcpdump', ...options], {
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      const chunks: Buffer[] = []
      capture.stdout.on('data', chunk => chunks.push(chunk))
      await until(() => chunks.length > 0, { what: 'tcpdump listens' }) // tcpdump prints the header of its file first
      await one.guest.stream({ host: two.nic.guest.ip6 ?? '', port: 8080 }, 100_000)
      await until(() => Buffer.concat(chunks).length > 100_000, { what: 'the packets were seen' })
      capture.kill()
      return Buffer.concat(chunks)
    }
    expect((await captured('wg-mote')).includes(said)).toBe(true)
    expect((await captured('eth0')).includes(said)).toBe(false)
  })

  it('reports a peer as unreachable within five seconds of a partition, and later as reachable again', async () => {
    await one.place.ip('link', 'set', 'eth0', 'down')
    const startedMs = performance.now()
    await until(async () => (await latency(one)) === null && (await latency(two)) === null, {
      what: 'both see it',
    })
    expect(performance.now() - startedMs).toBeLessThan(promisedMs(5_000))
    await one.place.ip('link', 'set', 'eth0', 'up')
    await linked('healed')
    expect(await two.guest.reaches({ host: one.nic.guest.ip6 ?? '', port: 8080 })).toBe(true)
  })

  it("replaces a host's key without breaking a TCP stream", async () => {
    const before = await one.observed()
    const bytes = 64 << 20
    const streaming = one.guest.stream({ host: two.nic.guest.ip6 ?? '', port: 8080 }, bytes)
    await one.ask('rotate')
    const after = await one.observed()
    expect(after.publicKey).not.toBe(before.publicKey)
    await introduce()
    expect(await streaming).toBe(`got ${bytes}`)
    await linked('with the new key')
  })

  it('does not expose the private key', async () => {
    const file = join(one.dir, 'mesh', 'key')
    const key = (await readFile(file, 'utf8')).trim()
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(JSON.stringify(await one.observed())).not.toContain(key)
    expect(await run('ps', ['-eo', 'args'])).not.toContain(key)
  })

  it("lets the gateway of another host connect to the app's port, and to no other port of a guest", async () => {
    const to = { host: two.nic.guest.ip6 ?? '', from: one.address }
    await two.guest.listen(9090)
    await one.place.listen(1)
    expect(await one.place.blocked({ ...to, port: 8080 })).toBe(true)
    await two.ask('gateways', [one.address])
    expect(await one.place.reaches({ ...to, port: 8080 })).toBe(true)
    expect(await one.place.blocked({ ...to, port: 9090 })).toBe(true)

    // The same test over IPv4, on which most programs listen. The kernel chooses the source address, as for a real
    // gateway.
    const to4 = { host: two.nic.guest.ip, port: 8080 }
    expect(await one.place.blocked(to4)).toBe(true)
    await two.ask('gateways', [one.address, (await one.observed()).ipv4?.gateway])
    expect(await one.place.reaches(to4)).toBe(true)
    expect(await one.place.blocked({ ...to4, port: 9090 })).toBe(true)
    expect(await one.guest.blocked(to4), 'guests do not').toBe(true)
  })

  it("routes to a VM's new host, and drops peers that the control plane no longer sends", async () => {
    await one.ask('apply', { address: one.address, peers: [{ ...(await peer(two)), vmAddresses: [] }] })
    expect(await one.guest.blocked({ host: two.nic.guest.ip6 ?? '', port: 8080 })).toBe(true)
    expect(await one.place.ip('-6', 'route', 'show')).not.toContain(`${project}::/64 dev wg-mote`)
    await introduce()
    expect(await one.guest.reaches({ host: two.nic.guest.ip6 ?? '', port: 8080 })).toBe(true)
  })
})

it.each(['192.0.2.1', '192.0.2.1:0', ':51820', '2001:db8::1:51820', '192.0.2.1:70000'])(
  'parseEndpoint refuses %s',
  text => expect(() => parseEndpoint(text)).toThrow('is not an address and UDP port'),
)
it('parseEndpoint accepts an IPv6 address in brackets', () =>
  expect(parseEndpoint('[2001:db8::1]:51820')).toEqual({ host: '2001:db8::1', port: 51_820 }))

function requests(running: ChildProcess): (verb: string, data?: unknown) => Promise<unknown> {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let next = 1
  if (running.stdout)
    createInterface({ input: running.stdout }).on('line', line => {
      const { id, result, error } = JSON.parse(line)
      if (error === undefined) waiting.get(id)?.resolve(result)
      else waiting.get(id)?.reject(new Error(error))
    })
  return (verb, data) => {
    const id = next++
    const waiter = Promise.withResolvers<unknown>()
    waiting.set(id, waiter)
    running.stdin?.write(`${JSON.stringify({ id, verb, data })}\n`)
    return waiter.promise
  }
}
