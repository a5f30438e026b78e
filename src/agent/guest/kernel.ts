import { createHash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { readIfExists } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'
import { cpio } from './cpio.ts'
import { buildInit, initSourceHash } from './init.ts'
import { collectModules, guestModules, type KernelModule, lateModules } from './modules.ts'
import { extractVmlinux } from './vmlinux.ts'

export interface GuestKernel {
  /** An ELF kernel that can be entered through PVH. */
  readonly kernel: string
  /** An initramfs with our init and the modules a guest needs. */
  readonly initrd: string
  readonly version: string
}

/** Packages that hold a kernel for guests, the smallest first: Debian's cloud flavour, Debian's, Ubuntu's. */
const candidates = ['linux-image-cloud-amd64', 'linux-image-amd64', 'linux-image-kvm', 'linux-image-virtual'] as const

/**
 * The guest's kernel and initramfs, made at first use: the distribution's packaged kernel is downloaded and unpacked
 * into the cache (never installed). Needs no root. 4 s the first time, 2 ms afterwards.
 * @param kernelDir a directory with `vmlinux` (and perhaps `lib/modules/<version>`) to use instead.
 */
export async function ensureKernel(
  cacheDir: string,
  onProgress: (line: string) => void,
  kernelDir?: string,
): Promise<GuestKernel> {
  if (arch() !== 'x64') throw new Error('guests need an x86-64 host: the kernel recipe for other machines is missing')
  const source = kernelDir ?? (await cachedDir(join(cacheDir, 'kernel'), dir => fetchKernel(dir, onProgress)))
  const version = (await readIfExists(join(source, 'version')))?.trim() ?? 'custom'
  const key = createHash('sha256')
    .update(`${source} ${version} ${await initSourceHash()} ${[...guestModules, ...lateModules].join()}`)
    .digest('hex')
    .slice(0, 16)
  const initrdDir = await cachedDir(join(cacheDir, 'initrd', key), async dir => {
    const init = await buildInit(cacheDir, onProgress)
    await writeFile(join(dir, 'init.cpio'), await initramfs(source, version, await readFile(init)))
  })
  return { kernel: join(source, 'vmlinux'), initrd: join(initrdDir, 'init.cpio'), version }
}

async function fetchKernel(dir: string, onProgress: (line: string) => void): Promise<void> {
  const name = await packageName()
  onProgress(`downloading the guest kernel ${name}`)
  await run('apt-get', ['download', '-q', name], { cwd: dir, timeoutMs: 300_000 })
  const deb = (await readdir(dir)).find(file => file.endsWith('.deb'))
  if (deb === undefined) throw new Error(`apt-get download ${name} left no package`)
  const tree = join(dir, 'tree')
  await run('dpkg-deb', ['-x', deb, tree], { cwd: dir })
  const bootDir = join(tree, 'boot')
  const image = (await readdir(bootDir)).find(file => file.startsWith('vmlinuz-'))
  if (image === undefined) throw new Error(`${name} holds no kernel`)
  const version = image.slice('vmlinuz-'.length)
  onProgress(`unpacking kernel ${version}`)
  await writeFile(join(dir, 'vmlinux'), await extractVmlinux(await readFile(join(bootDir, image))))
  await run('cp', ['-a', join(tree, await modulesRoot(tree)), join(dir, 'modules')])
  await writeFile(join(dir, 'version'), version)
  await run('rm', ['-rf', tree, join(dir, deb)])
}

/** Debian keeps modules in lib/modules/<version>, later releases in usr/lib/modules/<version>. */
async function modulesRoot(tree: string): Promise<string> {
  for (const root of ['lib/modules', 'usr/lib/modules']) {
    const [version] = await readdir(join(tree, root)).catch(() => [])
    if (version !== undefined) return join(root, version)
  }
  throw new Error('the kernel package holds no modules')
}

/** The versioned package behind the first meta package that apt knows. */
async function packageName(): Promise<string> {
  for (const meta of candidates) {
    const text = await run('apt-cache', ['depends', meta]).catch(() => '')
    const match = /Depends: (linux-image-(?:unsigned-)?[0-9][^\s]*)/.exec(text)
    if (match?.[1] !== undefined) return match[1]
  }
  throw new Error('apt knows no kernel package for guests: run "apt-get update", or set a kernel directory')
}

async function initramfs(source: string, version: string, init: Buffer): Promise<Buffer> {
  const collect = (wanted: readonly string[]) =>
    version === 'custom' ? Promise.resolve([]) : collectModules(join(source, 'modules'), wanted)
  const early = await collect(guestModules)
  const known = new Set(early.map(({ name }) => name))
  const late = (await collect(lateModules)).filter(({ name }) => !known.has(name))
  return cpio([
    { path: 'dev', mode: 0o040755 },
    { path: 'dev/console', mode: 0o020600, device: [5, 1] },
    { path: 'init', mode: 0o100755, data: init },
    { path: 'm', mode: 0o040755 },
    ...[...early, ...late].map(module => ({ path: fileOf(module), mode: 0o100644, data: module.data })),
    { path: 'modules.list', mode: 0o100644, data: listOf(early) },
    { path: 'modules.late', mode: 0o100644, data: listOf(late) },
  ])
}

const fileOf = ({ name }: KernelModule) => `m/${name}.ko`
const listOf = (modules: readonly KernelModule[]) => Buffer.from(modules.map(module => `${fileOf(module)}\n`).join(''))
