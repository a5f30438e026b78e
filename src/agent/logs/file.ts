import { appendFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists } from '../../lib/files.ts'
import { formatLine, parseLine, type StoredLine } from './line.ts'

/** A VM's log lines on disk, in two files. When the newer file is full, it is renamed and so replaces the older one. */
export interface LogFile {
  append(lines: readonly StoredLine[]): Promise<void>
  /** Returns all stored lines, oldest first. */
  read(): Promise<StoredLine[]>
  /** Returns the newest lines after `afterUs`, at most `tail` of them, oldest first. Parses only those lines. */
  newest(tail: number, afterUs: number): Promise<StoredLine[]>
}

/** Returns the paths of a VM's log files, newest first. */
export const logPaths = (dir: string): readonly [current: string, previous: string] => [
  join(dir, 'log.new'),
  join(dir, 'log.old'),
]

export function logFile(dir: string, maxBytes: number): LogFile {
  const [current, previous] = logPaths(dir)
  let bytes: number | undefined
  return {
    async append(lines) {
      const first = bytes === undefined
      bytes ??= await stat(current).then(
        ({ size }) => size,
        () => 0,
      )
      // A crash may have left a partial line at the end of the file; a line break keeps the next line separate.
      const data = Buffer.from((first && bytes > 0 ? '\n' : '') + lines.map(formatLine).join(''))
      if (bytes > 0 && bytes + data.length > maxBytes / 2) {
        await rename(current, previous)
        bytes = 0
      }
      await appendFile(current, data, { mode: 0o600 })
      bytes += data.length
    },
    async read() {
      const texts = await Promise.all([readIfExists(previous), readIfExists(current)])
      return texts.flatMap(parseLines)
    },
    async newest(tail, afterUs) {
      const lines: StoredLine[] = []
      for (const path of [current, previous]) {
        for (const line of backwards((await readIfExists(path)) ?? '')) {
          if (lines.length >= tail || line.atUs <= afterUs) return lines.reverse()
          lines.push(line)
        }
      }
      return lines.reverse()
    },
  }
}

/** Yields the lines of a text from its end. Times only increase from line to line, so a caller may stop early. */
function* backwards(text: string): Generator<StoredLine> {
  for (let end = text.length; end > 0; ) {
    const start = text.lastIndexOf('\n', end - 1) + 1
    const line = parseLine(text.slice(start, end))
    if (line) yield line
    end = start - 1
  }
}

function parseLines(text: string | undefined): StoredLine[] {
  const lines = (text ?? '').split('\n').map(parseLine)
  return lines.filter(line => line !== undefined)
}
