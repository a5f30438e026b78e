/**
 * Network namespaces that act as two hosts, with a cable between them, and a separate link from each to this machine.
 */
import { access, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { ensureKernel } from '../../src/agent/guest/kernel.ts'
import { type Place, place, shortName } from './agent/net.ts'
import { run } from '../../src/lib/exec.ts'

export interface NamespacedHost {
  readonly place: Place
  /** Address of the host on the veth pair that connects the hosts. */
  readonly underlay: string
  /** Address at which this machine reaches the host. */
  readonly address: string
  /**
   * Command prefix that runs a program in the namespace, with private directories below `/run`, where agents of one
   * machine otherwise share locks.
   */
  readonly inside: readonly string[]
}

/** Name of the network device at each end of the cable. */
export const cable = 'cable'
/** Name of each host's network device that connects it to this machine. */
export const uplink = 'uplink'
const privateRun = 'for d in /run/wireguard /run/mote; do mkdir -p $d && mount -t tmpfs tmpfs $d; done; exec "$@"'

/** Returns four addresses of 198.18.0.0/15, which RFC 2544 reserves for tests; unique to this process. */
function ownAddresses(): readonly string[] {
  const first = (process.pid % 2 ** 15) * 4
  return [0, 1, 2, 3].map(n => `198.${18 + (first >> 16)}.${(first >> 8) & 255}.${(first & 255) + n}`)
}

/** Creates both hosts. @returns them, and the address at which they reach this machine */
export async function twoHosts(stack: AsyncDisposableStack) {
  const [here = '', ...addresses] = ownAddresses()
  const places = [stack.use(await place(shortName('mh'))), stack.use(await place(shortName('mh')))] as const
  const [one, two] = places
  await one.ip('link', 'add', cable, 'type', 'veth', 'peer', 'name', cable, 'netns', two.name)
  const host = async (at: Place, n: number): Promise<NamespacedHost> => {
    const [underlay, address] = [`192.0.2.${n + 1}`, addresses[n] ?? '']
    await at.ip('addr', 'add', `${underlay}/24`, 'dev', cable)
    await at.ip('link', 'set', cable, 'up')
    const device = shortName('mu')
    await run('ip', ['link', 'add', device, 'type', 'veth', 'peer', 'name', uplink, 'netns', at.name])
    await run('ip', ['addr', 'add', `${here}/32`, 'peer', `${address}/32`, 'dev', device])
    await run('ip', ['link', 'set', device, 'up'])
    await at.ip('addr', 'add', `${address}/32`, 'peer', `${here}/32`, 'dev', uplink)
    await at.ip('link', 'set', uplink, 'up')
    return { place: at, underlay, address, inside: ['ip', 'netns', 'exec', at.name, 'sh', '-c', privateRun, 'sh'] }
  }
  return { here, hosts: [await host(one, 0), await host(two, 1)] as const }
}

/**
 * Copies the kernel and the compiled guest programs from the machine's cache to a cache for one agent. Agents on one
 * machine share a lock on their cache, but agents with a private `/run` do not.
 */
export async function ownCache(dir: string): Promise<string> {
  const shared = join(homedir(), '.cache', 'mote')
  await ensureKernel(shared, () => undefined)
  await mkdir(dir, { recursive: true })
  for (const part of ['kernel', 'kernel-own', 'initrd', 'init', 'kvm-proof', 'scratch', 'compiled']) {
    const there = await access(join(shared, part)).then(
      () => true,
      () => false,
    )
    if (there) await run('cp', ['-a', '--reflink=auto', join(shared, part), join(dir, part)])
  }
  return dir
}
