/** What makes a machine unusual, done in its room before the first command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Room } from './room.ts'

export interface Preparing {
  readonly room: Room
  /** Runs a command inside as root. @throws Error when it fails */
  asRoot(argv: readonly string[]): Promise<void>
}

export interface Prepared {
  /** Commands between the login and the README's. */
  readonly through?: readonly string[]
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

/** A program that comes before the real one on the PATH and only complains. */
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
    once(child, 'exit').then(() => Promise.reject(new Error(`port ${port} cannot be taken`))),
  ])
  return {
    async release() {
      const exit = once(child, 'exit')
      child.stdin.end()
      await exit
    },
  }
}
