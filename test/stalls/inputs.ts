/** Inputs that several test files share, and a directory of temporary files for each test file. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll } from 'vitest'
import { endOfArchive, globalHeaderBomb, paxData, rawEntry } from '../support/lib/archive.ts'
import { lazily } from '../../src/lib/once.ts'
import { testDir } from '../support/agent/agent.ts'

const dir = await testDir()
afterAll(() => dir[Symbol.asyncDispose]())

let files = 0
export const place = () => join(dir.path, `file-${++files}`)
export const placed = async (data: Buffer) => {
  const file = place()
  await writeFile(file, data)
  return file
}
export const never = new AbortController().signal

const manyHeaders = () =>
  Buffer.concat([
    ...Array.from({ length: 40_000 }, (_, n) =>
      Buffer.concat([rawEntry('x', { flag: 'x', data: paxData([['path', `d${n % 100}/f${n}`]]) }), rawEntry('f')]),
    ),
    endOfArchive,
  ])
/** The most expensive tar archives to read. Reading one of 639 KB (compressed) once took more than a minute. */
export const archives = lazily(() => [
  globalHeaderBomb(300_000, 2000),
  globalHeaderBomb(4000, 20_000),
  manyHeaders(),
  Buffer.alloc(300 << 20),
])
export const packed = lazily(() => archives().map(data => gzipSync(data, { level: 1 })))

/**
 * Makes a function return the same value for the same size. Cases run several times, so only the first run includes the
 * time in which its inputs are made.
 */
function oncePerSize(make: (bytes: number) => string): (bytes: number) => string {
  const made = new Map<number, string>()
  return bytes => {
    const text = made.get(bytes) ?? make(bytes)
    made.set(bytes, text)
    return text
  }
}
/** Returns JSON of this size with as many nested arrays as possible. */
export const deepJson = oncePerSize(bytes => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2))
/** Returns a JSON object of about this size with many short keys. */
export const wideJson = oncePerSize(bytes => `{${Array.from({ length: bytes / 12 }, (_, n) => `"k${n}":1`).join()}}`)
