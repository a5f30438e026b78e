/** Runs a separate libvirtd, which is accessed through python3-libvirt, the client library with the least overhead. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { apart, startPeer } from './beside.ts'

export interface Libvirt extends AsyncDisposable {
  /** Defines this many VMs that do not run. */
  define(count: number): Promise<void>
  /** Returns the milliseconds of one call of getAllDomainStats. @throws Error unless it reports this many VMs */
  stats(count: number): Promise<number>
  /** Returns the milliseconds of `virDomainCreateXML` for a VM of 128 MiB that halts at its first instruction. */
  create(name: string): Promise<number>
  suspend(name: string): Promise<number>
  resume(name: string): Promise<number>
  destroy(name: string): Promise<number>
}

const config = `user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
`

/**
 * Mounts directories of the benchmark over those of libvirtd in a separate mount namespace, because libvirtd has fixed
 * paths.
 */
const script = `mount --bind "$1/etc" /etc/libvirt && mount --bind "$1/var" /var/lib/libvirt && mount --bind "$1/run" /run &&
mount --bind "$1/cache" /var/cache/libvirt && mount --bind "$1/log" /var/log/libvirt && libvirtd`

async function prepare(dir: string): Promise<void> {
  for (const name of ['etc', 'var', 'run', 'cache', 'log']) await mkdir(join(dir, name))
  await writeFile(join(dir, 'etc', 'qemu.conf'), config)
  await writeFile(join(dir, 'etc', 'libvirtd.conf'), 'auth_unix_rw = "none"\n')
}

type Verb = 'define' | 'stats' | 'create' | 'suspend' | 'resume' | 'destroy'

/** Path of Debian's Python, because no other Python finds Debian's package python3-libvirt. */
const python = '/usr/bin/python3'

async function startClient(cleanup: AsyncDisposableStack, socket: string) {
  const file = join(import.meta.dirname, 'libvirt-client.py')
  await access(python).catch(() => {
    throw new Error('python3-libvirt is not installed: npm run bench -- --install-peers')
  })
  const child = spawn(python, [file, `qemu+unix:///system?socket=${socket}`], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-300)))
  const ended = once(child, 'exit')
  cleanup.defer(async () => {
    child.stdin.end()
    await ended
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return async (verb: Verb, name: string, count = 0): Promise<number> => {
    child.stdin.write(`${JSON.stringify({ do: verb, name, count })}\n`)
    const { value } = await lines.next()
    if (value === undefined) {
      await ended
      throw new Error(said.trim())
    }
    const answer = JSON.parse(value) as { ms: number } | { error: string }
    if ('error' in answer) throw new Error(`libvirt, ${verb}: ${answer.error}`)
    return answer.ms
  }
}

/** Starts libvirtd and its client. @throws Error with the reason if it cannot run */
export async function startLibvirt(): Promise<Libvirt> {
  await using cleanup = new AsyncDisposableStack()
  const dir = await startPeer(cleanup, {
    needs: ['libvirtd', 'unshare'],
    asRoot: true,
    prepare,
    command: dir => apart(script, dir),
    ready: dir => stat(join(dir, 'run', 'libvirt', 'libvirt-sock')),
  })
  const ask = await startClient(cleanup, join(dir, 'run', 'libvirt', 'libvirt-sock'))
  await ask('stats', '', 0)
  const all = cleanup.move()
  return {
    async define(count) {
      await ask('define', 'defined', count)
    },
    stats: count => ask('stats', '', count),
    create: name => ask('create', name),
    suspend: name => ask('suspend', name),
    resume: name => ask('resume', name),
    destroy: name => ask('destroy', name),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
