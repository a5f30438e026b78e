/** Decompresses and scans an uploaded source. Runs in a thread (archive-thread.ts). */
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { ArchiveFault, unreadable } from '../../lib/archive/fault.ts'
import { type ArchiveLimits, tarEntries } from '../../lib/archive/tar.ts'
import { hasCode } from '../../lib/files.ts'
import { isPlanFile } from './plan/project.ts'

const mostTextBytes = 256 << 10
const mostTexts = 100
/**
 * Limit on the names listed per directory: the top, with the files that decide the plan, and `public`, which may have
 * an index.html.
 */
const mostNames = 10_000
const listed: ReadonlySet<string> = new Set(['', 'public'])

/** The names at the top and in `public`, and the texts that decide the plan. */
export interface SentTree {
  readonly names: ReadonlyArray<readonly [dir: string, names: readonly string[]]>
  readonly texts: ReadonlyArray<readonly [name: string, text: string]>
}

/** @param to the tar archive; overwritten */
export async function unpackSent(packed: string, to: string, limits: ArchiveLimits): Promise<SentTree> {
  let bytes = 0
  const measured = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > limits.maxBytes) throw new ArchiveFault('too_large', `more than ${limits.maxBytes} bytes`)
      yield chunk
    }
  }
  const target = createWriteStream(to, { mode: 0o600 })
  await pipeline(createReadStream(packed), createGunzip(), measured, target).catch((cause: unknown) => {
    throw hasCode(cause, 'Z_DATA_ERROR') || hasCode(cause, 'Z_BUF_ERROR') ? unreadable('not gzip') : cause
  })
  return scan(to, limits)
}

async function scan(file: string, limits: ArchiveLimits): Promise<SentTree> {
  const names = new Map([...listed].map(dir => [dir, new Set<string>()]))
  const note = (dir: string, name: string | undefined) => {
    const known = names.get(dir)
    if (known && name !== undefined && known.size < mostNames) known.add(name)
  }
  const texts = new Map<string, string>()
  for await (const { name, size, type, body } of tarEntries(createReadStream(file), limits)) {
    const parts = name.split('/').filter(part => part !== '')
    const [top = '', next] = parts
    note('', top)
    note(top, next)
    const isText = type === 'file' && parts.length === 1 && isPlanFile(top)
    if (isText && size <= mostTextBytes && texts.size < mostTexts) texts.set(top, await textOf(body))
  }
  return { names: [...names].map(([dir, found]) => [dir, [...found]]), texts: [...texts] }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of body) parts.push(part)
  return Buffer.concat(parts).toString('utf8')
}
