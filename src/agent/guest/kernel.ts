import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { readIfExists } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'
import { cpio } from './cpio.ts'
import { buildInit, initSourceHash } from './init.ts'
import { collectModules, guestModules, type KernelModule, lateModules, pciModules, vsockModules } from './modules.ts'
import { findOwnKernel } from './own-kernel.ts'
import { extractVmlinux } from './vmlinux.ts'

export interface GuestKernel {
  /** An ELF kernel that can be entered through PVH. */
  readonly kernel: string
  /** An initramfs with our init and the modules a guest needs. */
  readonly initrd: string
  readonly version: string
  /** How it learns of virtio-mmio devices: from ACPI tables, or from its command line, which boots 0.2 s sooner. */
  readonly devices: 'acpi' | 'command-line'
}

/** Packages that hold a kernel for guests, the smallest first: Debian's cloud flavour, Debian's, Ubuntu's. */
const candidates = ['linux-image-cloud-amd64', 'linux-image-amd64', 'linux-image-kvm', 'linux-image-virtual'] as const

/**
 * The guest's kernel and initramfs, made at first use: our own kernel when `mote kernel build` made it, otherwise the
 * distribution's packaged one, downloaded and unpacked into the cache (never installed). Needs no root. 4 s the first
 * time, 2 ms afterwards.
 * @param needs what a hypervisor needs built into our own kernel; one that lacks it is passed over
 * @param kernelDir a directory with `vmlinux` (and perhaps `lib/modules/<version>`) to use instead.
 */
export async function ensureKernel(
  cacheDir: string,
  onProgress: (line: string) => void,
  kernelDir?: string,
  needs: readonly string[] = [],
): Promise<GuestKernel> {
  if (arch() !== 'x64') throw new Error('guests need an x86-64 host: the kernel recipe for other machines is missing')
  const source =
    kernelDir ??
    (await ownKernelWith(cacheDir, needs)) ??
    (await cachedDir(join(cacheDir, 'kernel'), dir => fetchKernel(dir, onProgress)))
  const version = (await readIfExists(join(source, 'version')))?.trim() ?? 'custom'
  const key = createHash('sha256')
    .update(`${source} ${version} ${await initSourceHash()} ${Object.values(moduleLists).flat().join()}`)
    .digest('hex')
    .slice(0, 16)
  const initrdDir = await cachedDir(join(cacheDir, 'initrd', key), async dir => {
    const init = await buildInit(cacheDir, onProgress)
    await writeFile(join(dir, 'init.cpio'), await initramfs(source, await readFile(init)))
  })
  const config = (await readIfExists(join(source, 'config'))) ?? ''
  const devices = config.includes('CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES=y') ? 'command-line' : 'acpi'
  return { kernel: join(source, 'vmlinux'), initrd: join(initrdDir, 'init.cpio'), version, devices }
}

/** Our own kernel has no modules: what it lacks it can never have. */
async function ownKernelWith(cacheDir: string, needs: readonly string[]): Promise<string | undefined> {
  const dir = await findOwnKernel(cacheDir)
  const config = dir === undefined ? '' : ((await readIfExists(join(dir, 'config'))) ?? '')
  return needs.every(option => config.includes(`${option}=y`)) ? dir : undefined
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

async function initramfs(source: string, init: Buffer): Promise<Buffer> {
  const modular = existsSync(join(source, 'modules'))
  const collect = (wanted: readonly string[]) =>
    modular ? collectModules(join(source, 'modules'), wanted) : Promise.resolve([])
  const lists = await Promise.all(
    Object.entries(moduleLists).map(async ([file, wanted]) => ({ file, modules: await collect(wanted) })),
  )
  const always = new Set(lists[0]?.modules.map(({ name }) => name))
  const all = new Map(lists.flatMap(({ modules }) => modules.map(module => [module.name, module] as const)))
  return cpio([
    { path: 'dev', mode: 0o040755 },
    { path: 'dev/console', mode: 0o020600, device: [5, 1] },
    { path: 'init', mode: 0o100755, data: init },
    { path: 'm', mode: 0o040755 },
    ...[...all.values()].map(module => ({ path: fileOf(module), mode: 0o100644, data: module.data })),
    ...lists.map(({ file, modules }, index) => ({
      ...{ path: file, mode: 0o100644 },
      data: listOf(modules.filter(({ name }) => index === 0 || !always.has(name))),
    })),
  ])
}

/** What guest/boot.c loads, and when. */
const moduleLists = {
  'modules.list': guestModules,
  'modules.pci': pciModules,
  'modules.vsock': vsockModules,
  'modules.late': lateModules,
} as const

const fileOf = ({ name }: KernelModule) => `m/${name}.ko`
const listOf = (modules: readonly KernelModule[]) => Buffer.from(modules.map(module => `${fileOf(module)}\n`).join(''))
