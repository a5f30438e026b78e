/** Applies the unusual property of a test system before the README's first command runs in it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { run } from '../../src/lib/exec.ts'
import { interceptingProxy } from './intercepting-proxy.ts'
import type { Room } from './room.ts'

export interface Preparing {
  readonly room: Room
  /** Runs a command in the test system as root. @throws Error if it fails */
  asRoot(argv: readonly string[]): Promise<void>
}

export interface Prepared {
  /** Command prefix for the README's command. */
  readonly through?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly release?: () => Promise<void>
}

const install = ['env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', 'install', '-y', '--no-install-recommends']

async function withPackage({ asRoot }: Preparing, name: string): Promise<void> {
  await asRoot(['apt-get', 'update', '-q'])
  await asRoot([...install, name])
}

export async function withFaketime(at: Preparing): Promise<undefined> {
  await withPackage(at, 'faketime')
}

export async function withLocale(at: Preparing, name: string): Promise<undefined> {
  await withPackage(at, 'locales')
  await at.asRoot(['localedef', '-i', name, '-f', 'UTF-8', `${name}.UTF-8`])
}

export async function withoutIpv6({ asRoot }: Preparing): Promise<undefined> {
  const files = ['all', 'default', 'lo'].map(device => `/proc/sys/net/ipv6/conf/${device}/disable_ipv6`)
  await asRoot(['sh', '-c', 'for file; do echo 1 > "$file"; done', 'sh', ...files])
}

/** Installs a fake program ahead of the real one on the PATH. It prints `complaint` and fails. */
export async function shadow({ asRoot }: Preparing, program: string, complaint: string): Promise<undefined> {
  const script = `#!/bin/sh\\necho "${complaint}" >&2\\nexit 1\\n`
  const file = `/usr/local/sbin/${program}`
  await asRoot(['sh', '-c', 'printf "$1" > "$2" && chmod 755 "$2"', 'sh', script, file])
}

const occupier = fileURLToPath(new URL('./occupier.ts', import.meta.url))

export async function occupyPort({ room }: Preparing, port: number): Promise<Prepared> {
  const [program, ...args] = room.beside([process.execPath, occupier, String(port)])
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => Promise.reject(new Error(`port ${port} cannot be occupied`))),
  ])
  return {
    async release() {
      const exit = once(child, 'exit')
      child.stdin.end()
      await exit
    },
  }
}

const authorityFile = '/usr/local/share/ca-certificates/company.crt'

/** Starts a proxy, and removes the default route and the DNS servers, so that only the proxy reaches the internet. */
export async function behindProxy({ room, asRoot }: Preparing): Promise<Prepared> {
  const { port, certificate, ...proxy } = await interceptingProxy(room.host)
  const [program, ...args] = room.beside(['ip', 'route', 'del', 'default'])
  await run(program, args)
  await asRoot(['sh', '-c', ': > /etc/resolv.conf'])
  await asRoot(['sh', '-c', 'printf %s "$1" > "$2" && update-ca-certificates', 'sh', certificate, authorityFile])
  const address = `http://${room.host}:${port}`
  const own = 'localhost,127.0.0.1,::1'
  return {
    env: {
      HTTP_PROXY: address,
      HTTPS_PROXY: address,
      NO_PROXY: own,
      http_proxy: address,
      https_proxy: address,
      no_proxy: own,
      NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt',
    },
    release: async () => proxy[Symbol.asyncDispose](),
  }
}
