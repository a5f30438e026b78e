/**
 * What people send as the source of an app: a gzipped tar of unknown origin. It is read as a stream, never unpacked, and
 * written anew with nothing but names, contents, links and whether a file is executable: equal trees are equal bytes.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { posix } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { type Extract, type Header, type Pack, extract, pack } from 'tar-stream'
import { hasCode } from '../../lib/files.ts'
import { ApiError } from '../http/errors.ts'

export interface SourceLimits {
  /** Unpacked. */
  readonly maxBytes: number
  readonly maxEntries: number
}

export interface TakenSource {
  /** SHA-256 of the file that was written, as 64 hexadecimal digits. */
  readonly digest: string
  /** Of that file. */
  readonly sizeBytes: number
  readonly files: number
}

type Kind = 'file' | 'directory' | 'symlink' | 'link'
const kinds: ReadonlyMap<string, Kind> = new Map([
  ['file', 'file'],
  ['contiguous-file', 'file'],
  ['directory', 'directory'],
  ['symlink', 'symlink'],
  ['link', 'link'],
])

const bad = (message: string, cause?: unknown) =>
  new ApiError('invalid_request', `body: ${message}`, { cause, details: [{ field: 'body', message }] })

/**
 * Writes the archive in `upload` to `file`.
 * @throws ApiError 400 naming the entry that may not be there, 413 when it is larger unpacked than `limits`
 */
export async function takeSource(
  upload: Readable,
  file: string,
  limits: SourceLimits,
  signal: AbortSignal,
): Promise<TakenSource> {
  const incoming = extract()
  const outgoing = pack()
  const hash = createHash('sha256')
  let sizeBytes = 0
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      sizeBytes += chunk.length
      done(null, chunk)
    },
  })
  const ends = new AbortController()
  const running = AbortSignal.any([signal, ends.signal])
  const read = pipeline(upload, createGunzip(), incoming, { signal: running })
  const written = pipeline(outgoing, createGzip(), measure, createWriteStream(file, { mode: 0o600 }), {
    signal: running,
  })
  try {
    const [files] = await Promise.all([rewrite(incoming, outgoing, limits), read, written])
    if (files === 0) throw bad('the archive has no file')
    return { digest: hash.digest('hex'), sizeBytes, files }
  } catch (cause) {
    throw explained(cause)
  } finally {
    ends.abort(new Error('the archive is over'))
    await Promise.allSettled([read, written])
  }
}

/** @returns how many files it has */
async function rewrite(incoming: Extract, outgoing: Pack, limits: SourceLimits): Promise<number> {
  const seen = new Map<string, Kind>()
  let bytes = 0
  let files = 0
  for await (const entry of incoming) {
    const { header } = entry
    bytes += header.size ?? 0
    if (bytes > limits.maxBytes || seen.size >= limits.maxEntries)
      throw new ApiError(
        'payload_too_large',
        `The source may have ${limits.maxBytes / 2 ** 20} MiB and ${limits.maxEntries} entries unpacked.`,
      )
    const checked = checkEntry(header, seen)
    if (checked === undefined) {
      entry.resume()
      continue
    }
    seen.set(checked.name, checked.kind)
    if (checked.kind !== 'directory') files += 1
    await add(outgoing, checked, header, Readable.from(entry))
  }
  outgoing.finalize()
  return files
}

interface Checked {
  readonly kind: Kind
  readonly name: string
  readonly target: string | null
}

/** Undefined: the top itself, which needs no entry. */
function checkEntry(header: Header, seen: ReadonlyMap<string, Kind>): Checked | undefined {
  const kind = kinds.get(header.type ?? 'file')
  const shown = header.name.slice(0, 200)
  if (kind === undefined) throw bad(`"${shown}" is a ${header.type}; only files, directories and links are taken`)
  const name = checkName(header.name)
  if (name === '') return undefined
  const known = seen.get(name)
  if (known !== undefined && !(known === 'directory' && kind === 'directory')) throw bad(`"${shown}" is there twice`)
  for (let above = posix.dirname(name); above !== '.'; above = posix.dirname(above))
    if ((seen.get(above) ?? 'directory') !== 'directory')
      throw bad(`"${shown}" lies below "${above}", which is no directory`)
  return { kind, name, target: targetOf(kind, name, header.linkname ?? '', seen) }
}

/** Relative, below the top, with `/` as the only separator. */
function checkName(text: string): string {
  const parts = text.split('/').filter(part => part !== '' && part !== '.')
  const isPlain = !text.startsWith('/') && !parts.includes('..') && !text.includes('\0') && text.isWellFormed()
  if (!isPlain || text.length > 1024 || parts.some(part => Buffer.byteLength(part) > 255))
    throw bad(`"${text.slice(0, 200)}" is not a name below the top of the source`)
  return parts.join('/')
}

/**
 * A symbolic link stays inside: up only at its beginning, so that no directory that is itself a link is left upwards.
 * A hard link names a file that came before.
 */
function targetOf(kind: Kind, name: string, linkname: string, seen: ReadonlyMap<string, Kind>): string | null {
  if (kind === 'link') {
    const target = checkName(linkname)
    if (seen.get(target) !== 'file') throw bad(`"${name}" is a hard link to no file before it`)
    return target
  }
  if (kind !== 'symlink') return null
  const parts = linkname.split('/').filter(part => part !== '' && part !== '.')
  const climbs = parts.findIndex(part => part !== '..')
  const isStraight = !parts.slice(climbs === -1 ? parts.length : climbs).includes('..')
  const inside = posix.join(posix.dirname(name), linkname)
  if (linkname === '' || linkname.startsWith('/') || !isStraight || inside === '..' || inside.startsWith('../'))
    throw bad(`"${name}" is a link that leads out of the source`)
  return linkname
}

/** Zip archives, which Python's wheels are, know no time before 1980. */
const mtime = new Date('1980-01-02T00:00:00Z')

async function add(outgoing: Pack, { kind, name, target }: Checked, header: Header, body: Readable): Promise<void> {
  const isExecutable = kind === 'directory' || ((header.mode ?? 0) & 0o111) !== 0
  const plain = { uid: 0, gid: 0, uname: '', gname: '', devmajor: 0, devminor: 0, mtime }
  const size = kind === 'file' ? (header.size ?? 0) : 0
  const done = Promise.withResolvers<void>()
  const sink = outgoing.entry(
    {
      ...plain,
      name,
      type: kind,
      ...(target === null ? {} : { linkname: target }),
      size,
      mode: isExecutable ? 0o755 : 0o644,
    },
    error => (error ? done.reject(error) : done.resolve()),
  )
  if (kind === 'file') {
    for await (const chunk of body) if (!sink.write(chunk)) await once(sink, 'drain')
    sink.end(Buffer.alloc(0))
  } else body.resume()
  await done.promise
}

const unreadable = ['Z_DATA_ERROR', 'Z_BUF_ERROR']

function explained(cause: unknown): unknown {
  if (cause instanceof ApiError || !(cause instanceof Error)) return cause
  if (
    unreadable.some(code => hasCode(cause, code)) ||
    /Invalid tar header|Unexpected end|exceeds max/.test(cause.message)
  )
    return bad('is not a whole tar.gz archive; make it with: tar -czf source.tar.gz .', cause)
  return cause
}
