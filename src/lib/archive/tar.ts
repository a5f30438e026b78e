/**
 * Reads untrusted tar archives from tenants, builders and registries. Time and memory are linear in the input, whatever
 * it contains: extended headers are limited in size and number and apply to one entry only, and the whole stream has a
 * size limit.
 */
import { ByteSource } from './byte-source.ts'
import { ArchiveFault, unreadable } from './fault.ts'
import {
  blockBytes,
  checkGlobal,
  entryOf,
  type EntryType,
  type ExtensionType,
  longText,
  parseHeader,
  parsePax,
  type PaxFields,
  type RawHeader,
} from './tar-header.ts'

export interface ArchiveLimits {
  /** Maximum size of the tar stream, in bytes: headers, contents, and data after the end of the archive. */
  readonly maxBytes: number
  /**
   * Maximum number of files, links and directories. Directories that only occur in the paths of other entries count,
   * too.
   */
  readonly maxEntries: number
}

/** Bytes and entries read so far. Archives that share this object have a common limit. */
export interface ArchiveUse {
  bytes: number
  entries: number
}

export interface TarEntry {
  readonly name: string
  readonly linkname: string
  readonly mode: number
  readonly size: number
  readonly type: EntryType
  /** Content of the entry. It can be read until the next entry is requested, which skips unread bytes. */
  readonly body: AsyncIterable<Buffer>
}

/**
 * Maximum size of an extended header. A path in Linux has up to 4 KiB; the rest allows for extended attributes in
 * images.
 */
const maxExtensionBytes = 128 << 10
const maxNameBytes = 4096

/** Yields the entries of an archive. @throws ArchiveFault if it is damaged, too large, or uses unsupported features */
export async function* tarEntries(
  source: AsyncIterable<Buffer>,
  { maxBytes, maxEntries }: ArchiveLimits,
  use: ArchiveUse = { bytes: 0, entries: 0 },
): AsyncGenerator<TarEntry> {
  const bytes = new ByteSource(source, length => {
    use.bytes += length
    if (use.bytes > maxBytes) throw tooLarge(maxBytes)
  })
  const count = entryCounter(maxEntries, use)
  // The size that the headers declare. An archive that must exceed the limit is refused before its content is read.
  let declared = use.bytes
  try {
    for (let header = await nextHeader(bytes, count); header; header = await nextHeader(bytes, count)) {
      const { name, linkname, mode, size, type } = header
      count(name)
      declared += blockBytes + size
      if (declared > maxBytes) throw tooLarge(maxBytes)
      const rest = { bytes: size }
      yield { name, linkname, mode, size, type, body: bodyOf(bytes, rest) }
      for await (const _skipped of bodyOf(bytes, rest));
      await padding(bytes, size)
    }
    while ((await bytes.some(Number.MAX_SAFE_INTEGER)) !== undefined);
  } finally {
    await bytes.close()
  }
}

const tooLarge = (maxBytes: number) => new ArchiveFault('too_large', `more than ${maxBytes} bytes`)

type Header = RawHeader & { readonly type: EntryType }
const isExtension = (type: RawHeader['type']): type is ExtensionType =>
  type === 'pax' || type === 'pax-global' || type === 'long-name' || type === 'long-link'

/**
 * Returns the next entry's header, including the fields of its extended headers; undefined at the end of the archive.
 */
async function nextHeader(bytes: ByteSource, count: (name: string) => void): Promise<Header | undefined> {
  const extensions = new Map<ExtensionType, Buffer>()
  for (;;) {
    const header = await readHeader(bytes)
    if (header === undefined) {
      if (extensions.size > 0) throw unreadable('it ends with a header of no entry')
      return undefined
    }
    const { type } = header
    if (!isExtension(type)) return extended({ ...header, type }, extensions)
    if (header.size > maxExtensionBytes) throw new ArchiveFault('refused', 'a header is too long')
    const data = (header.size === 0 ? Buffer.alloc(0) : await bytes.exactly(header.size)) ?? unexpectedEnd()
    await padding(bytes, header.size)
    if (type === 'pax-global') {
      checkGlobal(data)
      count('')
    } else {
      if (extensions.has(type)) throw unreadable('an entry has two headers of one kind')
      extensions.set(type, data)
    }
  }
}

/** Returns the next header; undefined at two zero blocks or at the end of the stream. */
async function readHeader(bytes: ByteSource): Promise<RawHeader | undefined> {
  const block = await bytes.exactly(blockBytes)
  if (block === undefined) return undefined
  if (!isZero(block)) return parseHeader(block)
  const second = await bytes.exactly(blockBytes)
  if (second !== undefined && !isZero(second)) throw unreadable('it has data after an empty block')
  return undefined
}

const zeros = Buffer.alloc(blockBytes)
const isZero = (block: Buffer) => block.equals(zeros)

function extended(header: Header, extensions: ReadonlyMap<ExtensionType, Buffer>): Header {
  const pax = extensions.get('pax')
  const fields: PaxFields = pax ? parsePax(pax) : {}
  const [longName, longLink] = [extensions.get('long-name'), extensions.get('long-link')]
  const { name, linkname, size, mode, type } = entryOf({
    ...header,
    ...fields,
    ...(longName ? { name: longText(longName) } : {}),
    ...(longLink ? { linkname: longText(longLink) } : {}),
  })
  if (Buffer.byteLength(name) > maxNameBytes || Buffer.byteLength(linkname) > maxNameBytes)
    throw new ArchiveFault('refused', `a name exceeds the limit of ${maxNameBytes} bytes`)
  if (isExtension(type)) throw new Error('BUG: an entry became an extended header')
  return { name, linkname, mode, size, type }
}

/**
 * Yields the content of an entry.
 * @param rest number of unread bytes, updated as they are read: the consumer may stop early, and the rest must be
 * skipped
 */
async function* bodyOf(bytes: ByteSource, rest: { bytes: number }): AsyncGenerator<Buffer> {
  while (rest.bytes > 0) {
    const part = (await bytes.some(rest.bytes)) ?? unexpectedEnd()
    rest.bytes -= part.length
    yield part
  }
}

async function padding(bytes: ByteSource, size: number): Promise<void> {
  const odd = size % blockBytes
  if (odd > 0 && (await bytes.exactly(blockBytes - odd)) === undefined) unexpectedEnd()
}

function unexpectedEnd(): never {
  throw unreadable('it ends early')
}

/**
 * Returns a function that counts an entry by its name, plus each directory in its path that the previous name did not
 * have, because unpacking a deep path creates many directories.
 */
function entryCounter(maxEntries: number, use: ArchiveUse): (name: string) => void {
  let before: readonly string[] = []
  return name => {
    const parts = name.split('/').filter(part => part !== '' && part !== '.')
    const parents = parts.slice(0, -1)
    const fresh = parents.findIndex((part, at) => part !== before[at])
    use.entries += 1 + (fresh < 0 ? 0 : parents.length - fresh)
    if (parts.length > 0) before = parts
    if (use.entries > maxEntries) throw new ArchiveFault('too_many', `more than ${maxEntries} entries`)
  }
}
