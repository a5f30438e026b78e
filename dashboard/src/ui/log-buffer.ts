/** Log lines in memory: as many as a page keeps, and which of them a search finds. No React in here. */
import type { LogLine } from '../api/shapes.ts'

/** A line is about 150 bytes, so this is about 15 MB. */
export const mostLines = 100_000
/** Dropping the oldest moves all others, so it is done rarely and in bulk. */
const dropAtOnce = 10_000

export interface LogBuffer {
  /** Extended in place: copying 100,000 lines with every new one would be all the work there is. */
  readonly lines: LogLine[]
  /** Positions in `lines` of what the search finds; undefined: everything. */
  readonly found: number[] | undefined
  /** How many were dropped because there were too many. */
  readonly dropped: number
}

export const emptyLog = (): LogBuffer => ({ lines: [], found: undefined, dropped: 0 })

/** @param wanted lower-case; empty finds everything */
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

/** Adds what came. @returns another object over the same arrays, so that React sees a change */
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

/** As a file: time, VM, stream, line. */
export const asText = (buffer: LogBuffer): string =>
  buffer.lines.map(({ at, vmId, stream, line }) => `${at} ${vmId.slice(0, 8)} ${stream} ${line}\n`).join('')

const escape = String.fromCharCode(27)
const colours = new RegExp(String.raw`${escape}\[[0-9;]*[A-Za-z]`, 'g')
/** Without the colours of a terminal. */
export const plain = (line: string) => line.replaceAll(colours, '')
