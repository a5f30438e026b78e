/** Reads the result from a builder VM's output disk. Runs in a worker thread (archive-thread.ts). */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pack } from 'tar-stream'
import { ArchiveFault, unreadable } from '../../lib/archive/fault.ts'
import { type PackedType, packEntry } from '../../lib/archive/packing.ts'
import { type ArchiveLimits, type TarEntry, tarEntries } from '../../lib/archive/tar.ts'

/** Name of the entry that ends the archive on the output disk. Data after this entry is ignored. */
const endMark = 'mote.end'

const refused = (message: string) => new ArchiveFault('refused', message)

/** Writes the layer of a finished build to `file`, which is overwritten. @param disk the builder VM's output disk */
export async function writeLayer(disk: string, file: string, limits: ArchiveLimits): Promise<void> {
  const layer = pack()
  const written = pipeline(layer, createWriteStream(file, { mode: 0o600 }))
  const read = eachEntry(disk, limits, async ({ name, linkname, mode, size, type, body }) => {
    const packed = layerTypes.get(type)
    if (!insideResult(name) || packed === undefined)
      throw refused(`the build created "${name.slice(0, 200)}", which is not part of an app`)
    if (type === 'link' && !insideResult(linkname))
      throw refused('the build created a link to a file outside of the app')
    const owner = isSystem(name) ? 0 : 1000
    const header = {
      name,
      type: packed,
      ...(linkname === '' ? {} : { linkname }),
      mode,
      uid: owner,
      gid: owner,
      mtime: new Date(0),
      size,
    }
    await packEntry(layer, header, body)
  })
  await Promise.all([read.then(() => layer.finalize()), written])
}

const layerTypes: ReadonlyMap<TarEntry['type'], PackedType> = new Map([
  ['file', 'file'],
  ['directory', 'directory'],
  ['symlink', 'symlink'],
  ['link', 'link'],
])
/** Whether the path belongs to a Debian package. Such files get the owner root, as in the base image. */
const isSystem = (name: string) => /^(?:usr|etc)(?:\/|$)/.test(name)
/** Account files, which a build may not replace: the guest starts the app with the accounts of the base image. */
const accounts = /^etc\/(?:passwd|group|shadow|gshadow)-?$/
const insideResult = (name: string) =>
  (/^app(?:\/|$)/.test(name) || isSystem(name)) && !accounts.test(name) && !name.split('/').includes('..')

export async function writeLayout(disk: string, dir: string, limits: ArchiveLimits): Promise<void> {
  await mkdir(join(dir, 'blobs', 'sha256'), { recursive: true })
  await eachEntry(disk, limits, async ({ name, type, body }) => {
    const blob = /^image\/blobs\/sha256\/([0-9a-f]{64})$/.exec(name)?.[1]
    const document = /^image\/(index\.json|oci-layout)$/.exec(name)?.[1]
    if (type !== 'file') return
    if (blob !== undefined) await takeBlob(body, join(dir, 'blobs', 'sha256', blob), blob)
    if (document !== undefined) await pipeline(body, createWriteStream(join(dir, document)))
  })
}

async function takeBlob(body: AsyncIterable<Buffer>, file: string, digest: string): Promise<void> {
  const hash = createHash('sha256')
  const observe = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  await pipeline(body, observe, createWriteStream(file, { mode: 0o600 }))
  if (hash.digest('hex') !== digest) throw refused('the build left a damaged image')
}

/**
 * Calls `take` for each entry of the disk's tar archive before the end mark.
 * @throws ArchiveFault if there is no end mark, or a limit is exceeded
 */
async function eachEntry(disk: string, limits: ArchiveLimits, take: (entry: TarEntry) => Promise<void>): Promise<void> {
  for await (const entry of tarEntries(createReadStream(disk), limits)) {
    if (entry.name === endMark) return
    await take(entry)
  }
  throw unreadable('there is no end mark')
}
