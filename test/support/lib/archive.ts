/** For tests: tar archives with malformed or unusual entries, which no library produces. */

/** Returns a tar header. @param change texts that overwrite it at these offsets, before its checksum is computed */
export function rawHeader(
  name: string,
  flag: string,
  size: number,
  change: Readonly<Record<number, string>> = {},
): Buffer {
  const block = Buffer.alloc(512)
  block.write(name.slice(0, 100), 0)
  block.write('0000644\0', 100)
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  block.write(`${''.padStart(11, '0')}\0`, 136)
  block.write(flag, 156)
  block.write('ustar\x0000', 257, 'latin1')
  for (const [at, text] of Object.entries(change)) block.write(text, Number(at), 'latin1')
  block.fill(' ', 148, 156)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

/** Returns a tar entry: a header and its content, padded to whole blocks. */
export function rawEntry(
  name: string,
  { flag = '0', data = '' }: { readonly flag?: string; readonly data?: string | Buffer } = {},
): Buffer {
  const content = Buffer.from(data)
  const padding = Buffer.alloc((512 - (content.length % 512)) % 512)
  return Buffer.concat([rawHeader(name, flag, content.length), content, padding])
}

export const endOfArchive = Buffer.alloc(1024)

/** Returns the data of a pax header: a record `<length> <key>=<value>\n` for each key. */
export const paxData = (records: ReadonlyArray<readonly [key: string, value: string]>): Buffer =>
  Buffer.concat(records.map(([key, value]) => Buffer.from(paxRecord(key, value))))

function paxRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`)
  let length = rest
  while (String(length).length + rest !== length) length = String(length).length + rest
  return `${length} ${key}=${value}\n`
}

/**
 * Returns an archive with a global pax header of many keys, followed by many small headers. A naive reader copies all
 * keys for each of these, which takes quadratic time.
 */
export function globalHeaderBomb(keys: number, headers: number): Buffer {
  const records = Array.from({ length: keys }, (_, n) => [`k${n}`, ''] as const)
  const small = rawEntry('x', { flag: 'x', data: paxData([['path', 'x']]) })
  return Buffer.concat([
    rawEntry('g', { flag: 'g', data: paxData(records) }),
    ...Array.from({ length: headers }, () => small),
    rawEntry('file', { data: 'x' }),
    endOfArchive,
  ])
}
