/** An image registry outside the host, which guests can only reach through their network. */
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:net'
import { until } from '../wait.ts'
import { run } from '../../../src/lib/exec.ts'
import { place, shortName, wire } from './net.ts'
import { testDir } from './agent.ts'

export interface OutsideRegistry extends AsyncDisposable {
  /** `address:port` of the registry, which speaks plain HTTP. */
  readonly host: string
  /** Pushes an image. @param layout OCI image layout with the tag `latest` @param name `repository:tag` */
  push(layout: string, name: string): Promise<void>
}

/** Starts Debian's docker-registry in a network namespace behind a veth pair. Needs root. */
export async function registryOutside(): Promise<OutsideRegistry> {
  await using stack = new AsyncDisposableStack()
  const dir = stack.use(await testDir())
  const world = stack.use(await place(shortName('reg')))
  // A /30 network in TEST-NET-2 (RFC 5737) for each process, so that test files that run in parallel do not collide.
  const first = 8 + 4 * (process.pid % 60)
  const [host, outside] = [`198.51.100.${first + 1}`, `198.51.100.${first + 2}`]
  await wire(world, shortName('vr'), { host: [`${host}/30`], outside: [`${outside}/30`] })
  const port = 5000
  const config = join(dir.path, 'config.yml')
  const storage = { filesystem: { rootdirectory: join(dir.path, 'blobs') } }
  await writeFile(config, JSON.stringify({ version: 0.1, storage, http: { addr: `${outside}:${port}` } }))
  const inside = ['netns', 'exec', world.name]
  const child = spawn('ip', [...inside, 'docker-registry', 'serve', config], { stdio: 'ignore' })
  stack.defer(() => void child.kill('SIGKILL'))
  await until(() => answers(outside, port), { what: 'the registry to listen', everyMs: 50 })
  const policy = join(dir.path, 'policy.json')
  await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
  const owned = stack.move()
  return {
    host: `${outside}:${port}`,
    async push(layout, name) {
      const flags = ['--policy', policy, 'copy', '-q', '--dest-tls-verify=false']
      await run('skopeo', [...flags, `oci:${layout}:latest`, `docker://${outside}:${port}/${name}`])
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const answers = (host: string, port: number) =>
  new Promise<boolean>(resolve => {
    const socket = connect({ host, port, timeout: 1000 })
    const end = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket
      .once('connect', () => end(true))
      .once('error', () => end(false))
      .once('timeout', () => end(false))
  })
