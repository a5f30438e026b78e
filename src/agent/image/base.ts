import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { Value } from 'typebox/value'
import { ArchiveFault } from '../../lib/archive/fault.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { minutes } from '../../lib/duration.ts'
import { CommandError } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'
import { fileSeconds, filesBelow, maxTableBytes, type ReadFile, type RunConfig, runConfigOf } from './config.ts'
import {
  blobPath,
  type Descriptor,
  type FoundManifest,
  ImageConfig,
  parseDocument,
  readBlob,
  refName,
} from './layout.ts'
import { type LayersJob, LayersUse } from './layer-count.ts'
import { hostFull, isDiskFull } from '../base/disk-full.ts'
import { ImageError } from '../base/image-error.ts'
import { keepSeed } from './seed.ts'
import {
  type Disk,
  mostImageIds,
  openWorker,
  type Shown,
  takeOver,
  type Unprivileged,
  type Worker,
} from '../worker/worker.ts'

/** A constant UUID for file systems, so that the same image gives the same file on every host. */
const fixedUuid = '6d6f7465-0000-4000-8000-000000000001'

/**
 * How a base stores files. `disk`: as small as possible, for a guest's kernel. `mapped`: every file begins at a block,
 * because gVisor maps files directly from the base and cannot map data that is stored within an inode.
 */
export type BaseForm = 'disk' | 'mapped'

export interface BaseOptions {
  /** Limit on the unpacked size of all layers together. */
  readonly maxBytes: number
  /**
   * Whether the platform trusts the image. The initial volume content of a trusted image (its seed) is kept as files on
   * the host.
   */
  readonly withSeed: boolean
  readonly form: BaseForm
  /** How to run the unpacking programs without privileges, for untrusted images. */
  readonly unprivileged: Unprivileged
}

/** An image in an OCI layout. */
export interface LayoutImage {
  readonly layoutDir: string
  readonly found: FoundManifest
  /**
   * Digest by which the registry or layout identifies the image. A pull may convert the manifest to OCI, which changes
   * the manifest's own digest.
   */
  readonly digest: string
}

/**
 * Writes the image's base to `base.img` and its run configuration to `image.json` in `dir`.
 * @throws ImageError `image_too_large` when the unpacked layers exceed `maxBytes`, `image_unusable` when a layer is
 * damaged or sparse, or there are too many layers; StepError `host_full` when the host has no room for it
 */
export async function buildBase(
  { layoutDir, found, digest }: LayoutImage,
  dir: string,
  { maxBytes, withSeed, form, unprivileged }: BaseOptions,
  signal: AbortSignal,
): Promise<void> {
  const size = await checkSize(layoutDir, found.manifest.layers, maxBytes, signal)
  const config = parseDocument(ImageConfig, await readBlob(layoutDir, found.manifest.config.digest), 'image config')
  const work = join(dir, 'work')
  // To create a seed, the image is unpacked as root, so that the owners of the volume content are preserved.
  const how = withSeed ? { program: undefined, reason: 'the platform trusts it' } : unprivileged
  const disk = how.program !== undefined && how.hasDisks ? diskFor(size, join(dir, 'disk.img')) : undefined
  const rootfs = disk ? `${disk.name}/rootfs` : 'rootfs'
  const limits = { rootfs, isOnDisk: disk !== undefined, maxBytes, signal }
  try {
    const shown = await layoutOfOne(layoutDir, found, work)
    using worker = await openWorker(how, work, { shown, signal, ...(disk ? { disk } : {}) })
    await unpack(worker, limits)
    const baseType = await makeFileSystem(worker, form, { ...limits, seconds: fileSeconds(config) })
    await takeOver(join(work, 'base.img'))
    await rename(join(work, 'base.img'), join(dir, 'base.img'))
    if (withSeed) await keepSeed(join(work, rootfs), dir, signal)
    const read = disk ? filesIn(worker, limits) : filesBelow(join(work, rootfs))
    const stored: RunConfig = { digest, baseType, ...(await runConfigOf(read, config)) }
    await writeFile(join(dir, 'image.json'), JSON.stringify(stored), { mode: 0o600 })
  } catch (cause) {
    throw !(cause instanceof ImageError) && isDiskFull(cause) ? hostFull('unpack the image', cause) : cause
  } finally {
    await rm(work, { recursive: true, force: true })
    if (disk) await rm(disk.file, { force: true })
  }
}

interface Unpacking {
  /** Path of the unpacked image, relative to the worker's directory. */
  readonly rootfs: string
  /** Whether the image is unpacked to a temporary file system of its own, whose size fits the counted files. */
  readonly isOnDisk: boolean
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/**
 * Upper limit on the disk space of a file besides its content: inode, directory entry, unused end of the last block,
 * and a block for attributes.
 */
const bytesPerFile = 10 * 1024
/** Share of ext4's own structures that grow with its size, such as bitmaps and extents. */
const shareOfStructures = 1 / 32

/**
 * Returns a disk with room for the files that were counted. The disk's size is also a limit in case umoci unpacks a
 * layer differently than it was counted.
 */
function diskFor({ bytes, entries }: LayersUse, file: string): Disk {
  const content = bytes + entries * bytesPerFile
  return { file, name: 'disk', bytes: Math.ceil(content * (1 + shareOfStructures)) + (4 << 20), files: entries }
}

/** Shell script that prints a regular file of the image, unless it is too large or a link leads out of the image. */
const printFile = `root=$(realpath -e "$1") && path=$(realpath -e "$1/$2") || exit 0
case $path in "$root"/*) ;; *) exit 0 ;; esac
if [ -f "$path" ] && [ "$(stat -c %s "$path")" -le "$3" ]; then exec cat "$path"; fi`

/**
 * Returns a function that reads files of the unpacked image, which is on a disk that only the worker's programs can
 * see.
 */
function filesIn(worker: Worker, { rootfs, signal }: Unpacking): ReadFile {
  return file =>
    worker.run('sh', ['-c', printFile, 'sh', rootfs, file, String(maxTableBytes)], {
      signal,
      outputBytes: maxTableBytes,
    })
}

/**
 * Limit on the number of layers: twice Docker's maximum of 127. Each layer, even a small one, is unpacked in a pass of
 * its own.
 */
const mostLayers = 256
/**
 * Limit on the number of files in all layers. The largest known images have half a million. Each unpacked file takes an
 * inode and a block on the host.
 */
const mostEntries = 1_000_000
const countMs = minutes(10)

/**
 * Counts the bytes and files of all layers before anything is written, because a small layer can unpack to a full disk.
 */
async function checkSize(
  layoutDir: string,
  layers: readonly Descriptor[],
  maxBytes: number,
  signal: AbortSignal,
): Promise<LayersUse> {
  if (layers.length > mostLayers)
    throw new ImageError('image_unusable', `the image has ${layers.length} layers, ${mostLayers} at most: squash some`)
  const files = layers.map(({ digest }) => blobPath(layoutDir, digest))
  const job: LayersJob = { files, limits: { maxBytes, maxEntries: mostEntries } }
  try {
    const limits = { signal, timeoutMs: countMs }
    return Value.Parse(LayersUse, await inThread(new URL('./layer-thread.ts', import.meta.url), job, limits))
  } catch (cause) {
    throw cause instanceof ArchiveFault ? explained(cause, maxBytes) : cause
  }
}

function explained(cause: ArchiveFault, maxBytes: number): ImageError {
  const reasons: Record<ArchiveFault['code'], readonly [ImageError['code'], string]> = {
    too_large: ['image_too_large', `is larger than the limit of ${Math.floor(maxBytes / 2 ** 20)} MiB when unpacked`],
    too_many: ['image_too_large', `exceeds the limit of ${mostEntries} files`],
    too_slow: ['image_too_large', 'takes too long to unpack'],
    unreadable: ['image_unusable', `has a layer that is not a tar archive: ${cause.message}`],
    refused: ['image_unusable', `has a layer that cannot be used: ${cause.message}`],
  }
  const [code, reason] = reasons[cause.code]
  return new ImageError(code, `the image ${reason}`, { cause })
}

/**
 * Creates a separate layout in `work` with the found manifest only, so that umoci has no choice of tags and no nested
 * index.
 * @returns the blobs that must be mounted into the new layout
 */
async function layoutOfOne(layoutDir: string, found: FoundManifest, work: string): Promise<Shown[]> {
  const view = join(work, 'layout')
  const blobs = join(view, 'blobs', 'sha256')
  await mkdir(blobs, { recursive: true })
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    digest: found.digest,
    size: found.size,
    annotations: { [refName]: 'image' },
  }
  const documents = {
    'oci-layout': { imageLayoutVersion: '1.0.0' },
    'index.json': { schemaVersion: 2, manifests: [entry] },
  }
  for (const [name, document] of Object.entries(documents)) {
    await writeFile(join(view, name), JSON.stringify(document))
    await chmod(join(view, name), 0o644)
  }
  for (const dir of [view, join(view, 'blobs'), blobs]) await chmod(dir, 0o755)
  const { config, layers } = found.manifest
  const digests = new Set([found.digest, config.digest, ...layers.map(layer => layer.digest)])
  return [...digests].map(digest => [resolve(blobPath(layoutDir, digest)), relative(work, blobPath(view, digest))])
}

/**
 * Unpacks with umoci, which checks every blob's digest and does not follow paths, links or whiteouts out of the root.
 */
async function unpack(worker: Worker, { rootfs, isOnDisk, maxBytes, signal }: Unpacking): Promise<void> {
  const rootless = worker.givesFilesAway ? [] : ['--rootless']
  const args = ['raw', 'unpack', ...rootless, '--image', 'layout:image', rootfs]
  // umoci may unpack a layer differently than it was counted. This limit applies to each file that it writes.
  const limit = (await hasProgram('prlimit')) ? ['prlimit', `--fsize=${maxBytes}`, '--'] : []
  const [program = 'umoci', ...rest] = [...limit, 'umoci', ...args]
  try {
    await worker.run(program, rest, { signal })
  } catch (cause) {
    if (isOnDisk && isDiskFull(cause))
      throw new ImageError('image_too_large', 'the unpacked image is larger than its layers state', { cause })
    const isOwner = cause instanceof CommandError && /chown.*invalid argument/.test(cause.stderr)
    if (!isOwner) throw cause
    const reason = `a file of the image has an owner or group above ${mostImageIds - 1}`
    throw new ImageError('image_unusable', reason, { cause })
  }
}

async function makeFileSystem(
  worker: Worker,
  form: BaseForm,
  limits: Unpacking & { readonly seconds: number },
): Promise<RunConfig['baseType']> {
  const { rootfs, signal, seconds } = limits
  if (await hasProgram('mkfs.erofs')) {
    const owner = worker.givesFilesAway ? [] : ['--all-root']
    const layout = form === 'mapped' ? ['-E', 'noinline_data'] : []
    const fixed = [`-T${seconds}`, '-U', fixedUuid]
    await worker.run('mkfs.erofs', [...fixed, ...layout, ...owner, 'base.img', rootfs], { signal })
    return 'erofs'
  }
  if (form === 'mapped') throw new ImageError('image_unusable', 'gVisor needs mkfs.erofs: install erofs-utils')
  await makeExt4(worker, limits)
  return 'ext4'
}

async function makeExt4(worker: Worker, { rootfs, signal }: Unpacking): Promise<void> {
  const usedKib = Number((await worker.run('du', ['-sk', '--apparent-size', rootfs], { signal })).split('\t')[0])
  const files = Number((await worker.run('du', ['-s', '--inodes', rootfs], { signal })).split('\t')[0])
  const sizeKib = Math.ceil(usedKib * 1.25) + files * 5 + 8192
  const options = `lazy_itable_init=1,root_owner=0:0,hash_seed=${fixedUuid}`
  const features = ['-O', '^has_journal,^resize_inode', '-m', '0', '-N', String(files + 64), '-E', options]
  const args = ['-q', '-t', 'ext4', ...features, '-U', fixedUuid, '-d', rootfs, 'base.img', `${sizeKib}k`]
  await worker.run('mke2fs', args, { signal })
}
