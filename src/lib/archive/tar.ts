/**
 * Reads tar archives that tenants, builders and registries made. Its work and memory are linear in the bytes that come,
 * whatever they say: extended headers are short, few and for one entry only, and the whole stream has a limit.
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
  /** Of the tar stream: headers, contents, and what follows the end. */
  readonly maxBytes: number
  /** Files, links and directories, those that are only part of a name included. */
  readonly maxEntries: number
}

/** What has been read so far. Archives that have one limit together share it. */
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
  /** Valid until the next entry is asked for; what is left of it is skipped then. */
  readonly body: AsyncIterable<Buffer>
}

/** A path of Linux has 4 KiB; attributes of a file, which images have, take the rest. */
const maxExtensionBytes = 128 << 10
const maxNameBytes = 4096

/** @throws ArchiveFault for one that is damaged, too large, or has what no archive needs */
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

/** The next entry's header with its extended headers applied; undefined at the end of the archive. */
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

/** Undefined: two blocks of zeros, or nothing more. */
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

/** @param rest what is left of the content: a consumer may stop early, the next reader goes on there */
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
 * Each name costs one, and one for each directory in it that the name before did not have: unpacked, a deep name makes
 * many directories.
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
