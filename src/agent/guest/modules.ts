import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { unxz } from './vmlinux.ts'

/** Modules that every guest needs. A module that the kernel contains or lacks is skipped. */
export const guestModules = [
  'virtio_mmio',
  'virtio_blk',
  'virtio_net',
  'overlay',
  'erofs',
  'virtio_console',
  'virtio_balloon',
] as const

/** Modules that the guest loads when the first volume is attached. */
export const lateModules = ['virtio_scsi', 'sd_mod'] as const

/** Modules for VMs with a PCI bus (Cloud Hypervisor). */
export const pciModules = ['virtio_pci'] as const

/** Modules for VMs that use vsock (Firecracker, Cloud Hypervisor). */
export const vsockModules = ['vmw_vsock_virtio_transport'] as const

export interface KernelModule {
  readonly name: string
  readonly data: Buffer
}

/**
 * Returns the modules and all their dependencies, dependencies first, uncompressed.
 * @param moduleDir lib/modules/<version> of an unpacked kernel package. It has no modules.dep before depmod has run, so
 *   dependencies are read from the modules themselves.
 */
export async function collectModules(moduleDir: string, wanted: readonly string[]): Promise<KernelModule[]> {
  const files = new Map<string, string>()
  for (const path of await readdir(join(moduleDir, 'kernel'), { recursive: true })) {
    const match = /^(.*)\.ko(\.gz|\.xz|\.zst)?$/.exec(basename(path))
    if (match?.[1] !== undefined) files.set(match[1].replaceAll('-', '_'), join(moduleDir, 'kernel', path))
  }
  const ordered = new Map<string, KernelModule>()
  const visit = async (name: string): Promise<void> => {
    const file = files.get(name)
    if (file === undefined || ordered.has(name)) return
    const data = await uncompressed(file)
    for (const dependency of dependenciesOf(data)) await visit(dependency)
    ordered.set(name, { name, data })
  }
  for (const name of wanted) await visit(name)
  return [...ordered.values()]
}

/** Parses `depends=a,b` in the .modinfo section, a list of NUL-terminated strings. */
function dependenciesOf(module: Buffer): string[] {
  const at = module.indexOf('\0depends=')
  if (at < 0) return []
  const end = module.indexOf(0, at + 1)
  const names = module.toString('latin1', at + '\0depends='.length, end)
  return names === '' ? [] : names.split(',').map(name => name.replaceAll('-', '_'))
}

async function uncompressed(file: string): Promise<Buffer> {
  const data = await readFile(file)
  if (file.endsWith('.gz')) return gunzipSync(data)
  if (file.endsWith('.zst')) return zstdDecompressSync(data)
  return file.endsWith('.xz') ? unxz(data) : data
}
