/** Converts `Range` and `If-Range` (RFC 9110, 14.2 and 13.1.5) to arguments of the file tool `get`. */

type Header = string | readonly string[] | undefined

/** A version that no file has. The tool sends the whole file if its version differs from the requested one. */
const noVersion = 'none'

/**
 * @returns first byte (negative: counted from the end), last byte and version; undefined for an invalid range and for
 * several ranges, which means the whole file
 */
export function rangeOf(range: Header, ifRange: Header): readonly [string, string, string] | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(String(range ?? '').trim()) ?? []
  const version = ifRange === undefined ? '' : (/^"([\w.-]+)"$/.exec(String(ifRange).trim())?.[1] ?? noVersion)
  if (first === '') return Number(last) > 0 ? [`-${last}`, '', version] : undefined
  return last !== '' && Number(last) < Number(first) ? undefined : [first, last, version]
}
