/**
 * Rewrites an uploaded source archive so that it contains only names, contents, links and executable flags. Equal file
 * trees therefore give equal bytes. Runs in a thread (source-thread.ts).
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { posix } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { type Pack, pack } from 'tar-stream'
import { ArchiveFault, unreadable } from '../../lib/archive/fault.ts'
import { type PackedType, packEntry } from '../../lib/archive/packing.ts'
import { type ArchiveLimits, type TarEntry, tarEntries } from '../../lib/archive/tar.ts'
import { hasCode } from '../../lib/files.ts'

export interface SourceJob {
  /** Path of the uploaded gzipped archive. */
  readonly from: string
  readonly to: string
  readonly limits: ArchiveLimits
}

export interface TakenSource {
  /** SHA-256 of the rewritten archive, as 64 hexadecimal digits. */
  readonly digest: string
  /** Size of the rewritten archive. */
  readonly sizeBytes: number
  readonly files: number
}

type Kind = PackedType
const kinds: ReadonlyMap<TarEntry['type'], Kind> = new Map([
  ['file', 'file'],
  ['contiguous-file', 'file'],
  ['directory', 'directory'],
  ['symlink', 'symlink'],
  ['link', 'link'],
])

const bad = (message: string) => new ArchiveFault('refused', message)

/** Rewrites the archive `from` to the file `to`. @throws ArchiveFault naming the refused entry */
export async function rewriteSource({ from, to, limits }: SourceJob): Promise<TakenSource> {
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
  const written = pipeline(outgoing, createGzip(), measure, createWriteStream(to, { mode: 0o600 }))
  const read = pipeline(createReadStream(from), createGunzip(), plain => rewriteEntries(plain, outgoing, limits))
  const [files] = await Promise.all([read, written]).catch((cause: unknown) => {
    throw unreadableCodes.some(code => hasCode(cause, code)) ? unreadable('not gzip') : cause
  })
  if (files === 0) throw bad('the archive contains no file')
  return { digest: hash.digest('hex'), sizeBytes, files }
}

const unreadableCodes = ['Z_DATA_ERROR', 'Z_BUF_ERROR']

/** Copies all entries of the archive. @returns the number of files and links */
async function rewriteEntries(incoming: AsyncIterable<Buffer>, outgoing: Pack, limits: ArchiveLimits): Promise<number> {
  const observed = new Map<string, Kind>()
  let files = 0
  for await (const entry of tarEntries(incoming, limits)) {
    const checked = checkEntry(entry, observed)
    if (checked === undefined) continue
    observed.set(checked.name, checked.kind)
    if (checked.kind !== 'directory') files += 1
    await add(outgoing, checked, entry)
  }
  outgoing.finalize()
  return files
}

interface Checked {
  readonly kind: Kind
  readonly name: string
  readonly target: string | null
}

/**
 * Checks an entry of the archive and returns what to write for it; undefined for the root directory, which needs no
 * entry.
 */
function checkEntry(header: TarEntry, observed: ReadonlyMap<string, Kind>): Checked | undefined {
  const kind = kinds.get(header.type)
  const shown = header.name.slice(0, 200)
  if (kind === undefined) throw bad(`"${shown}" is a ${header.type}; only files, directories and links are supported`)
  const name = checkName(header.name)
  if (name === '') return undefined
  const known = observed.get(name)
  if (known !== undefined && !(known === 'directory' && kind === 'directory')) throw bad(`"${shown}" occurs twice`)
  for (let above = posix.dirname(name); above !== '.'; above = posix.dirname(above))
    if ((observed.get(above) ?? 'directory') !== 'directory')
      throw bad(`"${shown}" is below "${above}", which is not a directory`)
  return { kind, name, target: targetOf(kind, name, header.linkname, observed) }
}

/**
 * Checks the name of an archive's entry and returns it as a relative path below the root, with `/` as the only
 * separator.
 */
function checkName(text: string): string {
  const parts = text.split('/').filter(part => part !== '' && part !== '.')
  const isPlain = !text.startsWith('/') && !parts.includes('..') && !text.includes('\0') && text.isWellFormed()
  if (!isPlain || text.length > 1024 || parts.some(part => Buffer.byteLength(part) > 255))
    throw bad(`"${text.slice(0, 200)}" is not a valid path below the root of the source`)
  return parts.join('/')
}

/**
 * Checks the target of a link and returns it; null if the entry is no link. A symbolic link must stay inside the
 * source: `..` is allowed only at its beginning, so that it cannot climb out through a directory that is itself a link.
 * A hard link must name an earlier file.
 */
function targetOf(kind: Kind, name: string, linkname: string, observed: ReadonlyMap<string, Kind>): string | null {
  if (kind === 'link') {
    const target = checkName(linkname)
    if (observed.get(target) !== 'file') throw bad(`"${name}" is a hard link, but its target is not an earlier file`)
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

/**
 * Modification time of all entries in the rewritten archive. Zip archives, such as Python wheels, cannot store times
 * before 1980.
 */
const mtime = new Date('1980-01-02T00:00:00Z')

function add(outgoing: Pack, { kind, name, target }: Checked, { mode, size, body }: TarEntry): Promise<void> {
  const isExecutable = kind === 'directory' || (mode & 0o111) !== 0
  const header = {
    name,
    type: kind,
    ...(target === null ? {} : { linkname: target }),
    mode: isExecutable ? 0o755 : 0o644,
    uid: 0,
    gid: 0,
    mtime,
    size: kind === 'file' ? size : 0,
  }
  return packEntry(outgoing, header, body)
}
