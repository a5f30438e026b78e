import { createReadStream } from 'node:fs'
import { mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { semaphore } from '../../lib/semaphore.ts'
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
import { ImageError } from './reference.ts'
import { keepSeed } from './seed.ts'

/** One value for all: the same image gives the same file on every host. */
const fixedUuid = '6d6f7465-0000-4000-8000-000000000001'

/**
 * Turns the image into `base.img` and `image.json` in `dir`.
 * @param digest the image's name in its source; a pull may have converted the manifest to OCI, which changes its own.
 * @throws ImageError `image_too_large` when the unpacked layers exceed `maxBytes`, `image_unusable` when it has too many
 */
export async function buildBase(
  layoutDir: string,
  found: FoundManifest,
  digest: string,
  dir: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<void> {
  await checkSize(layoutDir, found.manifest.layers, maxBytes, signal)
  const work = join(dir, 'work')
  await mkdir(work)
  try {
    const rootfs = await unpack(layoutDir, found, work, signal)
    const config = parseDocument(ImageConfig, await readBlob(layoutDir, found.manifest.config.digest), 'image config')
    const run = await runConfigOf(rootfs, config)
    const baseType = await makeFileSystem(rootfs, join(dir, 'base.img'), signal)
    await keepSeed(rootfs, dir, signal)
    const stored: RunConfig = { digest, baseType, ...run }
    await writeFile(join(dir, 'image.json'), JSON.stringify(stored), { mode: 0o600 })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Twice what Docker makes (127): each costs a pass over it, however little it holds. */
const mostLayers = 256
/** A layer in Zstandard may have us hold 128 MiB of it (RFC 8878, 3.1.1.1.2; the limit of zstd's library). */
const layersAtOnce = 2

/**
 * Counts what the layers hold before anything is written: a small file can unpack to a full disk. Some are decompressed
 * side by side, on the threads of the pool; of one that is not compressed its size says it.
 */
async function checkSize(layoutDir: string, layers: readonly Descriptor[], maxBytes: number, signal: AbortSignal) {
  if (layers.length > mostLayers)
    throw new ImageError('image_unusable', `the image has ${layers.length} layers, ${mostLayers} at most: squash some`)
  let total = 0
  const add = (bytes: number) => {
    total += bytes
    if (total > maxBytes)
      throw new ImageError('image_too_large', `the image unpacks to more than ${Math.floor(maxBytes / 2 ** 20)} MiB`)
  }
  const failed = new AbortController()
  const until = AbortSignal.any([signal, failed.signal])
  const slots = semaphore(layersAtOnce)
  const counts = layers.map(async ({ digest }) => {
    const release = await slots.take(until)
    await countLayer(blobPath(layoutDir, digest), add, until).finally(release)
  })
  await Promise.all(counts).finally(async () => {
    failed.abort()
    await Promise.allSettled(counts)
  })
}

async function countLayer(path: string, add: (bytes: number) => void, signal: AbortSignal): Promise<void> {
  const decompress = decompressorOf(await readHead(path))
  if (!decompress) return add((await stat(path)).size)
  await pipeline(
    createReadStream(path),
    decompress,
    async chunks => {
      for await (const chunk of chunks) add(chunk.length)
    },
    { signal },
  )
}

function decompressorOf(head: Buffer): Gunzip | ZstdDecompress | undefined {
  const magic = head.readUInt32BE(0)
  if (magic >>> 16 === 0x1f8b) return createGunzip({ chunkSize })
  return magic === 0x28b52ffd ? createZstdDecompress({ chunkSize }) : undefined
}

/** Each chunk is a trip to a thread and back. */
const chunkSize = 256 * 1024

async function readHead(path: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of createReadStream(path, { end: 3 })) if (Buffer.isBuffer(chunk)) chunks.push(chunk)
  return Buffer.concat([...chunks, Buffer.alloc(4)], 4)
}

/**
 * umoci sees a layout of our own with this one manifest in it: no tag to choose, no index to walk. It checks every
 * blob's digest and keeps paths, links and whiteouts inside the root.
 */
async function unpack(layoutDir: string, found: FoundManifest, work: string, signal: AbortSignal): Promise<string> {
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
  await run('umoci', ['raw', 'unpack', ...rootless, '--image', `${view}:image`, rootfs], { signal })
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
