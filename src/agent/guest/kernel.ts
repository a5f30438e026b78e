import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { readIfExists } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'
import { cpio } from './cpio.ts'
import { distributionKernel } from './distribution-kernel.ts'
import { buildInit, initSourceHash } from './init.ts'
import { collectModules, guestModules, type KernelModule, lateModules, pciModules, vsockModules } from './modules.ts'
import { shippedKernel } from './shipped-kernel.ts'

export interface GuestKernel {
  /** Path of an ELF kernel with a PVH entry point. */
  readonly kernel: string
  /** Path of an initramfs with Mote's init and the modules that guests need. */
  readonly initrd: string
  readonly version: string
  /**
   * Where the kernel finds the list of virtio-mmio devices: in ACPI tables, or on the command line, which boots 0.2 s
   * faster.
   */
  readonly devices: 'acpi' | 'command-line'
}

/**
 * The kernel of guests. `shipped`: the one in `guest/kernel`; `distribution`: the package of the host's distribution;
 * any other text: a directory with `vmlinux`.
 */
export type KernelChoice = 'shipped' | 'distribution' | (string & {})

/**
 * Returns the guest's kernel and initramfs, built on first use (0.2 s; 2 ms afterwards). Needs neither root nor
 * network.
 * @throws Error that says what the operator has to do
 */
export async function ensureKernel(
  cacheDir: string,
  onProgress: (line: string) => void,
  choice: KernelChoice = 'shipped',
): Promise<GuestKernel> {
  if (arch() !== 'x64')
    throw new Error(`virtual machines need an x86-64 host: there is no guest kernel for ${arch()} yet`)
  const source = await kernelDirOf(cacheDir, onProgress, choice)
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

async function kernelDirOf(
  cacheDir: string,
  onProgress: (line: string) => void,
  choice: KernelChoice,
): Promise<string> {
  if (choice === 'distribution') return distributionKernel(cacheDir, onProgress)
  if (choice !== 'shipped') return choice
  return shippedKernel(cacheDir)
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
      path: file,
      mode: 0o100644,
      data: listOf(modules.filter(({ name }) => index === 0 || !always.has(name))),
    })),
  ])
}

/** Module lists that guest/boot.c loads at different times. */
const moduleLists = {
  'modules.list': guestModules,
  'modules.pci': pciModules,
  'modules.vsock': vsockModules,
  'modules.late': lateModules,
} as const

const fileOf = ({ name }: KernelModule) => `m/${name}.ko`
const listOf = (modules: readonly KernelModule[]) => Buffer.from(modules.map(module => `${fileOf(module)}\n`).join(''))
