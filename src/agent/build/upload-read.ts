/** Decompresses and scans an uploaded source. Runs in a worker thread (archive-thread.ts). */
import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { ArchiveFault, unreadable } from '../../lib/archive/fault.ts'
import { type ArchiveLimits, tarEntries } from '../../lib/archive/tar.ts'
import { hasCode } from '../../lib/files.ts'
import { fitsPlan, isPlanFile, isPlanPath, keptText } from './plan/project.ts'

/**
 * Limits on the number of files whose text is read, at the top and below it. They are separate, so that a large
 * monorepo does not displace files at the top.
 */
const mostTexts = { top: 100, below: 300 } as const
const mostBytesBelow = 8 << 20
const mostPaths = 50_000

/** All paths of an uploaded source, and the texts of the files on which its build plan may depend. */
export interface SentTree {
  readonly paths: readonly string[]
  readonly texts: ReadonlyArray<readonly [name: string, text: string]>
}

/** Decompresses an uploaded source and reads its plan files. @param to where the tar archive is written; overwritten */
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
  const paths: string[] = []
  const texts = { top: new Map<string, string>(), below: new Map<string, string>() }
  let bytesBelow = 0
  for await (const { name, size, type, body } of tarEntries(createReadStream(file), limits)) {
    const parts = name.split('/').filter(part => part !== '' && part !== '.')
    const path = parts.join('/')
    if (type === 'directory' || !isPlanPath(path)) continue
    if (paths.length < mostPaths) paths.push(path)
    if (type !== 'file' || !isPlanFile(path) || !fitsPlan(path, size)) continue
    const place = parts.length === 1 ? 'top' : 'below'
    if (texts[place].size >= mostTexts[place] || (place === 'below' && bytesBelow > mostBytesBelow)) continue
    const text = keptText(path, await textOf(body))
    texts[place].set(path, text)
    if (place === 'below') bytesBelow += text.length
  }
  return { paths, texts: [...texts.top, ...texts.below] }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of body) parts.push(part)
  return Buffer.concat(parts).toString('utf8')
}
