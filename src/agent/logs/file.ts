import { appendFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists } from '../../lib/files.ts'
import { formatLine, parseLine, type StoredLine } from './line.ts'

/** A VM's lines on disk: two files, so that the older half goes in one rename when the newer is full. */
export interface LogFile {
  append(lines: readonly StoredLine[]): Promise<void>
  /** All kept lines, oldest first. */
  read(): Promise<StoredLine[]>
  /** The newest `tail` of those after `afterUs`, oldest first; parses no more than it gives. */
  newest(tail: number, afterUs: number): Promise<StoredLine[]>
}

export function logFile(dir: string, maxBytes: number): LogFile {
  const current = join(dir, 'log.new')
  const previous = join(dir, 'log.old')
  let bytes: number | undefined
  return {
    async append(lines) {
      const first = bytes === undefined
      bytes ??= await stat(current).then(
        ({ size }) => size,
        () => 0,
      )
      // A crash may have left half a line: what comes now must not be glued to it.
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

/** The lines of a text from its end; times only grow, so who reads may stop at one. */
function* backwards(text: string): Generator<StoredLine> {
  for (let end = text.length; end > 0; ) {
    const start = text.lastIndexOf('\n', end - 1) + 1
    const line = parseLine(text.slice(start, end))
    if (line) yield line
    end = start - 1
  }
}

export function parseLines(text: string | undefined): StoredLine[] {
  const lines = (text ?? '').split('\n').map(parseLine)
  return lines.filter(line => line !== undefined)
}
