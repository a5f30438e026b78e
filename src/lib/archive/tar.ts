/**
 * Reads untrusted tar archives of tenants, builders and registries. Work and memory are linear in the input, whatever
 * it contains: extended headers are limited in size and number and apply to one entry only, and the whole stream has a
 * limit.
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
  /** Limit on the tar stream: headers, contents, and data after the end. */
  readonly maxBytes: number
  /** Limit on files, links and directories, including directories that appear only in names. */
  readonly maxEntries: number
}

/** Bytes and entries read so far. Archives with a common limit share it. */
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
  /** Valid until the next entry is requested; the unread rest is skipped then. */
  readonly body: AsyncIterable<Buffer>
}

/** A Linux path has up to 4 KiB; extended attributes, which images use, take the rest. */
const maxExtensionBytes = 128 << 10
const maxNameBytes = 4096

/** @throws ArchiveFault for an archive that is damaged, too large, or uses unsupported features */
export async function* tarEntries(
  source: AsyncIterable<Buffer>,
  { maxBytes, maxEntries }: ArchiveLimits,
  use: ArchiveUse = { bytes: 0, entries: 0 },
): AsyncGenerator<TarEntry> {
  const bytes = new ByteSource(source, length => {
    use.bytes += length
    if (use.bytes > maxBytes) throw new ArchiveFault('too_large', `more than ${maxBytes} bytes`)
  })
  const count = entryCounter(maxEntries, use)
  try {
    for (let header = await nextHeader(bytes, count); header; header = await nextHeader(bytes, count)) {
      const { name, linkname, mode, size, type } = header
      count(name)
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

type Header = RawHeader & { readonly type: EntryType }
const isExtension = (type: RawHeader['type']): type is ExtensionType =>
  type === 'pax' || type === 'pax-global' || type === 'long-name' || type === 'long-link'

/** Returns the next entry's header with its extended headers applied; undefined at the end of the archive. */
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

/** Returns undefined at two zero blocks or the end of the stream. */
async function readHeader(bytes: ByteSource): Promise<RawHeader | undefined> {
  const block = await bytes.exactly(blockBytes)
  if (block === undefined) return undefined
  if (!isZero(block)) return parseHeader(block)
  const second = await bytes.exactly(blockBytes)
  if (second !== undefined && !isZero(second)) throw unreadable('there is a gap')
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
    throw new ArchiveFault('refused', `a name has more than ${maxNameBytes} bytes`)
  if (isExtension(type)) throw new Error('BUG: an entry became an extended header')
  return { name, linkname, mode, size, type }
}

/** @param rest number of unread bytes of the content: a consumer may stop early, and the next reader continues there */
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
 * Counts one for each name, plus one for each directory in it that the previous name did not have: unpacking a deep
 * name creates many directories.
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
