import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ArchiveFault } from '../../lib/archive/fault.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { minutes } from '../../lib/duration.ts'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { hasProgram } from '../../lib/programs.ts'
import { type RunConfig, runConfigOf } from './config.ts'
import {
  blobPath,
  type Descriptor,
  type FoundManifest,
  ImageConfig,
  parseDocument,
  readBlob,
  refName,
} from './layout.ts'
import type { LayersJob } from './layer-count.ts'
import { ImageError } from './reference.ts'
import { keepSeed } from './seed.ts'

/** One value for all: the same image gives the same file on every host. */
const fixedUuid = '6d6f7465-0000-4000-8000-000000000001'

export interface BaseOptions {
  /** Of all layers unpacked. */
  readonly maxBytes: number
  /** The platform trusts the image, and keeps what it has for volumes. */
  readonly withSeed: boolean
}

/**
 * Turns the image into `base.img` and `image.json` in `dir`.
 * @param digest the image's name in its source; a pull may have converted the manifest to OCI, which changes its own.
 * @throws ImageError `image_too_large` when the unpacked layers exceed `maxBytes`, `image_unusable` when one is damaged or sparse,
 * or there are too many
 */
export async function buildBase(
  layoutDir: string,
  found: FoundManifest,
  digest: string,
  dir: string,
  { maxBytes, withSeed }: BaseOptions,
  signal: AbortSignal,
): Promise<void> {
  await checkSize(layoutDir, found.manifest.layers, maxBytes, signal)
  const work = join(dir, 'work')
  await mkdir(work)
  try {
    const rootfs = await unpack(layoutDir, found, work, maxBytes, signal)
    const config = parseDocument(ImageConfig, await readBlob(layoutDir, found.manifest.config.digest), 'image config')
    const run = await runConfigOf(rootfs, config)
    const baseType = await makeFileSystem(rootfs, join(dir, 'base.img'), signal)
    if (withSeed) await keepSeed(rootfs, dir, signal)
    const stored: RunConfig = { digest, baseType, ...run }
    await writeFile(join(dir, 'image.json'), JSON.stringify(stored), { mode: 0o600 })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Twice what Docker makes (127): each costs a pass over it, however little it holds. */
const mostLayers = 256
/** The largest images have half as many; unpacked, each takes an inode and a block of the host. */
const mostEntries = 1_000_000
const countMs = minutes(10)

/** Reads all layers before anything is written: a small file can unpack to a full disk. */
async function checkSize(layoutDir: string, layers: readonly Descriptor[], maxBytes: number, signal: AbortSignal) {
  if (layers.length > mostLayers)
    throw new ImageError('image_unusable', `the image has ${layers.length} layers, ${mostLayers} at most: squash some`)
  const files = layers.map(({ digest }) => blobPath(layoutDir, digest))
  const job: LayersJob = { files, limits: { maxBytes, maxEntries: mostEntries } }
  try {
    await inThread(new URL('./layer-thread.ts', import.meta.url), job, { signal, timeoutMs: countMs })
  } catch (cause) {
    throw cause instanceof ArchiveFault ? explained(cause, maxBytes) : cause
  }
}

function explained(cause: ArchiveFault, maxBytes: number): ImageError {
  const reasons: Record<ArchiveFault['code'], readonly [ImageError['code'], string]> = {
    too_large: ['image_too_large', `unpacks to more than ${Math.floor(maxBytes / 2 ** 20)} MiB`],
    too_many: ['image_too_large', `has more than ${mostEntries} files`],
    too_slow: ['image_too_large', 'takes too long to unpack'],
    unreadable: ['image_unusable', `has a layer that is no tar archive: ${cause.message}`],
    refused: ['image_unusable', `has a layer that cannot be used: ${cause.message}`],
  }
  const [code, reason] = reasons[cause.code]
  return new ImageError(code, `the image ${reason}`, { cause })
}

/**
 * umoci sees a layout of our own with this one manifest in it: no tag to choose, no index to walk. It checks every
 * blob's digest and keeps paths, links and whiteouts inside the root.
 */
async function unpack(
  layoutDir: string,
  found: FoundManifest,
  work: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string> {
  const view = join(work, 'layout')
  await mkdir(view)
  await symlink(resolve(layoutDir, 'blobs'), join(view, 'blobs'))
  await writeFile(join(view, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    digest: found.digest,
    size: found.size,
    annotations: { [refName]: 'image' },
  }
  await writeFile(join(view, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  const rootfs = join(work, 'rootfs')
  const rootless = process.getuid?.() === 0 ? [] : ['--rootless']
  const args = ['raw', 'unpack', ...rootless, '--image', `${view}:image`, rootfs]
  // Should it read a layer in another way than we did: no file of it becomes larger than the image may be.
  const limited = await hasProgram('prlimit')
  if (limited) await run('prlimit', [`--fsize=${maxBytes}`, '--', 'umoci', ...args], { signal })
  else await run('umoci', args, { signal })
  return rootfs
}

async function makeFileSystem(rootfs: string, target: string, signal: AbortSignal): Promise<RunConfig['baseType']> {
  const owner = process.getuid?.() === 0 ? [] : ['--all-root']
  try {
    await run('mkfs.erofs', ['-T0', '-U', fixedUuid, ...owner, target, rootfs], { signal })
    return 'erofs'
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
  await makeExt4(rootfs, target, signal)
  return 'ext4'
}

async function makeExt4(rootfs: string, target: string, signal: AbortSignal): Promise<void> {
  const usedKib = Number((await run('du', ['-sk', '--apparent-size', rootfs], { signal })).split('\t')[0])
  const files = Number((await run('du', ['-s', '--inodes', rootfs], { signal })).split('\t')[0])
  const sizeKib = Math.ceil(usedKib * 1.25) + files * 5 + 8192
  const options = `lazy_itable_init=1,root_owner=0:0,hash_seed=${fixedUuid}`
  const features = ['-O', '^has_journal,^resize_inode', '-m', '0', '-N', String(files + 64), '-E', options]
  await run('mke2fs', ['-q', '-t', 'ext4', ...features, '-U', fixedUuid, '-d', rootfs, target, `${sizeKib}k`], {
    signal,
  })
}
