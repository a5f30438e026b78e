/** What a builder VM left on its output disk. It is hostile input: read as a stream, bounded, and never unpacked. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Header, type Pack, extract, pack } from 'tar-stream'
import { BuildFault } from './fault.ts'

/** The last entry; what lies behind it on the disk is not part of the archive. */
const endMark = 'mote.end'

export interface OutputLimits {
  readonly maxBytes: number
  readonly maxEntries: number
  readonly signal: AbortSignal
}

export const outputLimits = { maxBytes: 4 * 2 ** 30, maxEntries: 500_000 } as const

/**
 * The files below `app/` as a layer: everything else is refused, owners become the app's user, times go, so that equal
 * trees give equal layers.
 */
export async function readLayer(disk: string, file: string, limits: OutputLimits): Promise<void> {
  const layer = pack()
  const written = pipeline(layer, createWriteStream(file, { mode: 0o600 }), { signal: limits.signal })
  const read = eachEntry(disk, limits, async (header, body) => {
    const type = header.type ?? 'file'
    if (!insideApp(header.name) || !(type in layerTypes))
      throw new BuildFault(`the build made "${header.name.slice(0, 200)}", which is no part of an app`)
    if (type === 'link' && !insideApp(header.linkname ?? ''))
      throw new BuildFault('the build made a link to a file outside of the app')
    const { name, linkname, mode } = header
    const size = type === 'file' ? (header.size ?? 0) : 0
    const entry = { name, type, mode: mode ?? 0o644, uid: 1000, gid: 1000, mtime: new Date(0), size, ...plain }
    await addEntry(layer, { ...entry, linkname: linkname ?? null }, body)
  })
  await Promise.all([
    read.then(
      () => layer.finalize(),
      (error: Error) => layer.destroy(error),
    ),
    read,
    written,
  ])
}

/** No names of users, no devices. */
const plain = { uname: '', gname: '', devmajor: 0, devminor: 0 } as const

async function addEntry(layer: Pack, header: Header, body: Readable): Promise<void> {
  const done = Promise.withResolvers<void>()
  const target = layer.entry(header, error => (error ? done.reject(error) : done.resolve()))
  if (header.type === 'file') {
    for await (const chunk of body) if (!target.write(chunk)) await once(target, 'drain')
    target.end(Buffer.alloc(0))
  }
  await done.promise
}

const layerTypes = { file: 1, directory: 1, symlink: 1, link: 1 } as const
const insideApp = (name: string) => /^app(\/|$)/.test(name) && !name.split('/').includes('..')

/** The OCI layout in `image/`, blobs checked against their names. `dir` gets `blobs`, `index.json` and `oci-layout`. */
export async function readLayout(disk: string, dir: string, limits: OutputLimits): Promise<void> {
  await mkdir(join(dir, 'blobs', 'sha256'), { recursive: true })
  await eachEntry(disk, limits, async ({ name, type }, body) => {
    const blob = /^image\/blobs\/sha256\/([0-9a-f]{64})$/.exec(name)?.[1]
    const document = /^image\/(index\.json|oci-layout)$/.exec(name)?.[1]
    if (type === 'file' && blob !== undefined) return takeBlob(body, join(dir, 'blobs', 'sha256', blob), blob, limits)
    if (type === 'file' && document !== undefined) return pipeline(body, createWriteStream(join(dir, document)))
    body.resume()
  })
}

async function takeBlob(body: Readable, file: string, digest: string, { signal }: OutputLimits): Promise<void> {
  const hash = createHash('sha256')
  const observe = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      done(null, chunk)
    },
  })
  await pipeline(body, observe, createWriteStream(file, { mode: 0o600 }), { signal })
  if (hash.digest('hex') !== digest) throw new BuildFault('the build left a damaged image')
}

/** Calls `take` for each entry before the end mark. @throws BuildFault when there is none, or it is too much */
async function eachEntry(
  disk: string,
  limits: OutputLimits,
  take: (header: Header, body: Readable) => Promise<void>,
): Promise<void> {
  const source = createReadStream(disk)
  const tar = extract()
  let bytes = 0
  let entries = 0
  const fed = pipeline(source, tar, { signal: limits.signal })
  // Ended on purpose at the mark: what the pipeline says then is no fault.
  fed.catch(() => undefined)
  try {
    for await (const entry of tar) {
      const { header } = entry
      if (header.name === endMark) return
      bytes += header.size ?? 0
      if (++entries > limits.maxEntries || bytes > limits.maxBytes)
        throw new BuildFault(
          `The result is larger than ${Math.floor(limits.maxBytes / 2 ** 20)} MiB or ${limits.maxEntries} files.`,
        )
      await take(header, Readable.from(entry))
    }
    throw new BuildFault('The build left no result.')
  } catch (error) {
    if (error instanceof Error && /Invalid tar header|Unexpected end/.test(error.message))
      throw new BuildFault('The build left no readable result.', { cause: error })
    throw error
  } finally {
    source.destroy()
    tar.destroy()
  }
}

/** An empty disk of that size, sparse. */
export async function makeDisk(file: string, sizeMib: number): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.truncate(sizeMib * 2 ** 20)
  } finally {
    await handle.close()
  }
}
