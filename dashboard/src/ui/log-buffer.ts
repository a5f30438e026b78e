/** Log lines in memory, limited in number, with the result of a search. Independent of React. */
import type { LogLine } from '@mote/client'

/** Maximum number of log lines in memory: about 15 MB, at about 150 bytes per line. */
export const mostLines = 100_000
/** Number of lines to drop at once when the buffer is full: dropping shifts all other lines, so it should be rare. */
const dropAtOnce = 10_000

export interface LogBuffer {
  /** All log lines in memory. Extended in place, because copying 100,000 lines for every new one would be too slow. */
  readonly lines: LogLine[]
  /** Indexes into `lines` of the lines that the search has found; undefined if there is no search. */
  readonly found: number[] | undefined
  /** Number of lines dropped since the log was opened, because of the limit. */
  readonly dropped: number
}

export const emptyLog = (): LogBuffer => ({ lines: [], found: undefined, dropped: 0 })

/** Whether the line contains the search text. @param wanted lower-case; empty matches everything */
const matches = (line: LogLine, wanted: string) => line.line.toLowerCase().includes(wanted)

function positions(lines: readonly LogLine[], wanted: string): number[] | undefined {
  if (wanted === '') return undefined
  const found: number[] = []
  for (const [index, line] of lines.entries()) if (matches(line, wanted)) found.push(index)
  return found
}

export const search = (buffer: LogBuffer, wanted: string): LogBuffer => ({
  ...buffer,
  found: positions(buffer.lines, wanted.toLowerCase()),
})

/** Appends new lines. @returns a new object with the same arrays, so that React detects the change */
export function append(buffer: LogBuffer, added: readonly LogLine[], wanted: string): LogBuffer {
  const { lines } = buffer
  const first = lines.length
  for (const line of added) lines.push(line)
  const tooMany = lines.length - mostLines
  if (tooMany > 0) {
    const gone = Math.min(lines.length, tooMany + dropAtOnce)
    const kept = lines.slice(gone)
    return { lines: kept, found: positions(kept, wanted.toLowerCase()), dropped: buffer.dropped + gone }
  }
  if (wanted === '') return { ...buffer, found: undefined }
  const found = buffer.found ?? []
  const lower = wanted.toLowerCase()
  for (const [index, line] of added.entries()) if (matches(line, lower)) found.push(first + index)
  return { ...buffer, found }
}

/** The text of the downloaded file: time, VM, stream, line. */
export const asText = (buffer: LogBuffer): string =>
  buffer.lines.map(({ at, vm_id, stream, line }) => `${at} ${vm_id.slice(0, 8)} ${stream} ${line}\n`).join('')

const escape = String.fromCharCode(27)
const colors = new RegExp(String.raw`${escape}\[[0-9;]*[A-Za-z]`, 'g')
/** Removes terminal colors (escape sequences) from a line. */
export const plain = (line: string) => line.replaceAll(colors, '')
