/** Reads the local files that `mote.toml` gives to VMs. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { EffectiveFile } from '../appfile/effective.ts'
import { appFileName } from '../appfile/name.ts'

const mostBytes = 512 << 10

/**
 * Adds the contents of local files to `[[files]]`.
 * @throws Error naming the file that cannot be read, or the limit that is exceeded
 */
export async function withContents(file: EffectiveFile, dir = process.cwd()): Promise<EffectiveFile> {
  if (!file.files) return file
  const files = await Promise.all(
    file.files.map(async one => {
      if (one.source === undefined) return one
      const content = new Uint8Array(await contentOf(join(dir, one.source), one.source))
      return { ...one, content, sha256: createHash('sha256').update(content).digest('hex') }
    }),
  )
  const total = files.reduce((sum, one) => sum + ('content' in one ? (one.content?.length ?? 0) : 0), 0)
  if (total > mostBytes)
    throw new Error(`[[files]] of ${appFileName} have ${total} bytes, but the limit is ${mostBytes} in total.`)
  return { ...file, files }
}

const contentOf = (path: string, name: string) =>
  readFile(path).catch((cause: unknown) => {
    throw new Error(`${name}, a source in [[files]] of ${appFileName}, cannot be read.`, { cause })
  })
