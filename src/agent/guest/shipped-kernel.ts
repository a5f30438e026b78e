/**
 * The guest kernel that comes with Mote: one build, proven on every supported VMM and pinned by checksum, so that guests do
 * not depend on the kernel that the host's distribution happens to package. docs/decisions/0080-guest-kernel.md
 */
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { cachedDir } from './cache.ts'

const shippedDir = join(import.meta.dirname, '../../../guest/kernel')

/** `guest/kernel/manifest.json`, written by scripts/ship-kernel.mjs. */
const Manifest = Type.Object({
  version: Type.String(),
  /** Name and version of the Debian source package. */
  source: Type.String(),
  compiler: Type.String(),
  /** SHA-256 of the uncompressed `vmlinux`, in hexadecimal. */
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  bytes: Type.Integer({ minimum: 1 }),
  /**
   * Hash of `guest/kernel.config` and the patches, as in `ownKernelDir`. If it differs from that of the repository, the
   * kernel must be built again.
   */
  configHash: Type.String(),
})
export type KernelManifest = Readonly<Static<typeof Manifest>>

export async function shippedManifest(): Promise<KernelManifest> {
  return Value.Parse(Manifest, JSON.parse(await readFile(join(shippedDir, 'manifest.json'), 'utf8')))
}

/**
 * Unpacks the shipped kernel into the cache if it is not there, which takes 0.1 s.
 * @throws Error if the checksum of the file differs from the one in the manifest
 */
export async function shippedKernel(cacheDir: string): Promise<string> {
  const manifest = await shippedManifest()
  return cachedDir(join(cacheDir, 'kernel-shipped', manifest.sha256.slice(0, 16)), async dir => {
    const packed = await readFile(join(shippedDir, 'vmlinux.zst'))
    const vmlinux = await promisify(zstdDecompress)(packed, { maxOutputLength: manifest.bytes })
    const found = createHash('sha256').update(vmlinux).digest('hex')
    if (found !== manifest.sha256)
      throw new Error(
        'guest/kernel/vmlinux.zst is damaged: its checksum is not the one in manifest.json; check it out again',
      )
    await writeFile(join(dir, 'vmlinux'), vmlinux)
    await writeFile(join(dir, 'config'), await readFile(join(shippedDir, 'config')))
    await writeFile(join(dir, 'version'), manifest.version)
  })
}
