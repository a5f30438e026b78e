/** Network namespaces that stand in for guests, hosts and the internet, so that tests send real packets without VMs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { run } from '../../../src/lib/exec.ts'
import type { Nic } from '../../../src/agent/net/net.ts'

const helper = fileURLToPath(new URL('./net-child.ts', import.meta.url))

export interface Reach {
  readonly host: string
  readonly port: number
  readonly protocol?: 'tcp' | 'udp'
  /** Source address; by default, the kernel chooses. */
  readonly from?: string
  /** Payload of a UDP datagram; default: `hello`. */
  readonly text?: string
}

export interface Place extends AsyncDisposable {
  readonly name: string
  /** Listens and responds on TCP and UDP, IPv4 and IPv6. */
  listen(port: number): Promise<void>
  /** Returns true if the destination responds within 5 s, which allows for a busy machine. */
  reaches(to: Reach): Promise<boolean>
  /** Returns true if the destination does not respond within 0.3 s. */
  blocked(to: Reach): Promise<boolean>
  /** Returns true if a datagram with this text has arrived, from any source address. */
  heard(text: string): Promise<boolean>
  /** Sends this many bytes over TCP, and returns the peer's response. */
  stream(to: Reach, bytes: number): Promise<string>
  /** Sends `times` datagrams from each of `sockets` sockets at once, and returns how many came back. */
  flood(to: { readonly host: string; readonly port: number }, much: Flood): Promise<number>
  ip(...args: string[]): Promise<string>
}

export interface Flood {
  readonly sockets?: number
  readonly times?: number
  readonly message?: Buffer
}

let count = 0
/** Returns a name that is unique on this machine and short enough for a network device. */
export const shortName = (prefix: string) => `${prefix}${process.pid.toString(36)}${(count++).toString(36)}`

/**
 * Creates a network namespace and an endpoint in it. With `name: null`, the endpoint is in the host's own namespace.
 */
export async function place(name: string | null): Promise<Place> {
  if (name !== null) await run('ip', ['netns', 'add', name])
  return placeIn(name, async () => {
    if (name !== null) await run('ip', ['netns', 'del', name])
  })
}

/** Creates an endpoint in an existing network namespace, such as one that an agent has created for a sandbox. */
export const existingPlace = (name: string): Promise<Place> => placeIn(name, () => Promise.resolve())

async function placeIn(name: string | null, remove: () => Promise<void>): Promise<Place> {
  const inside = name === null ? [] : ['ip', 'netns', 'exec', name]
  const [program = '', ...args] = [...inside, process.execPath, helper]
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ask = requests(child)
  const ip = (...args: string[]) => run('ip', name === null ? args : ['-n', name, ...args])
  await ip('link', 'set', 'lo', 'up')
  const tries = async ({ protocol = 'tcp', ...to }: Reach, limitMs: number) =>
    (await ask({ verb: protocol, ...to, limitMs })) === true
  return {
    name: name ?? 'host',
    listen: async port => void (await ask({ verb: 'listen', port })),
    reaches: to => tries(to, 5_000),
    blocked: async to => !(await tries(to, 300)),
    heard: async text => (await ask({ verb: 'heard', text })) === true,
    stream: async (to, bytes) => String(await ask({ verb: 'stream', ...to, bytes })),
    flood: async (to, { sockets = 1, times = 1, message = Buffer.from('hello') }) =>
      Number(await ask({ verb: 'flood', ...to, sockets, times, base64: message.toString('base64') })),
    ip,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await remove()
    },
  }
}

function requests(child: ChildProcess): (request: object) => Promise<unknown> {
  const waiting = new Map<number, (result: unknown) => void>()
  let next = 1
  if (child.stdout)
    createInterface({ input: child.stdout }).on('line', line => {
      const { id, result } = JSON.parse(line)
      waiting.get(id)?.(result)
      waiting.delete(id)
    })
  return request =>
    new Promise(resolve => {
      const id = next++
      waiting.set(id, resolve)
      child.stdin?.write(`${JSON.stringify({ id, ...request })}\n`)
    })
}

/** Configures `eth0` of the namespace as a guest with this network card would configure itself. */
export async function becomeGuest({ ip }: Place, { guest, mac }: Nic): Promise<void> {
  await ip('link', 'set', 'eth0', 'address', mac)
  await ip('link', 'set', 'eth0', 'up')
  await ip('addr', 'add', `${guest.ip}/${guest.prefix}`, 'dev', 'eth0')
  await ip('route', 'add', 'default', 'via', guest.gateway)
  if (!guest.ip6 || !guest.gateway6 || !guest.route6) return
  await ip('addr', 'add', `${guest.ip6}/128`, 'dev', 'eth0', 'nodad')
  await ip('route', 'add', guest.route6, 'via', guest.gateway6, 'dev', 'eth0')
}

/**
 * Connects a namespace to the host with a veth pair, which disappears with the namespace.
 * @param addresses `host`: of the host's end, `outside`: of the namespace's end
 */
export async function wire(
  to: Place,
  device: string,
  addresses: { readonly host: readonly string[]; readonly outside: readonly string[] },
): Promise<void> {
  await run('ip', ['link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', to.name])
  await run('ip', ['link', 'set', device, 'up'])
  await to.ip('link', 'set', 'eth0', 'up')
  const bare = (address: string) => (address.includes(':') ? ['nodad'] : [])
  for (const address of addresses.host) await run('ip', ['addr', 'add', address, 'dev', device, ...bare(address)])
  for (const address of addresses.outside) await to.ip('addr', 'add', address, 'dev', 'eth0', ...bare(address))
}
