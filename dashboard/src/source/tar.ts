/** Entries of a tar archive (POSIX.1-2017, pax interchange format). */

const blockBytes = 512
const encoder = new TextEncoder()

/**
 * One file: header, contents, and padding to a full block. Names that do not fit into the header go into a pax record.
 */
export function ustar(path: string, file: Blob): BlobPart[] {
  const isLong = encoder.encode(path).length > 100
  return [
    ...(isLong ? [...paxPath(path)] : []),
    header(isLong ? 'long' : path, file.size, '0'),
    file,
    padding(file.size),
  ]
}

function paxPath(path: string): BlobPart[] {
  const text = ` path=${path}\n`
  const bare = encoder.encode(text).length
  // The length at the start of a pax record includes its own digits.
  const length = bare + String(bare + String(bare).length).length
  const record = encoder.encode(`${length}${text}`)
  return [header('pax', record.length, 'x'), record, padding(record.length)]
}

function header(name: string, size: number, type: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(blockBytes)
  const put = (at: number, text: string) => block.set(encoder.encode(text), at)
  const octal = (at: number, width: number, value: number) => put(at, `${value.toString(8).padStart(width - 1, '0')}\0`)
  put(0, name)
  octal(100, 8, 0o644)
  octal(108, 8, 0)
  octal(116, 8, 0)
  octal(124, 12, size)
  octal(136, 12, 0)
  put(148, ' '.repeat(8))
  put(156, type)
  put(257, 'ustar\u000000')
  octal(
    148,
    7,
    block.reduce((sum, byte) => sum + byte, 0),
  )
  return block
}

const padding = (size: number) => new Uint8Array((blockBytes - (size % blockBytes)) % blockBytes)
