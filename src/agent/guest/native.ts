/** Small programs of our own in C, for what Node.js cannot do: compiled at first use. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'

/**
 * The program that this source file makes, static, so that it needs no library of the host's.
 * @throws Error where there is no compiler
 */
export async function nativeProgram(cacheDir: string, source: URL): Promise<string> {
  const file = fileURLToPath(source)
  const name = basename(file, '.c')
  const key = createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
    .slice(0, 16)
  const dir = await cachedDir(join(cacheDir, 'init', `${name}-${key}`), target => compile(file, join(target, name)))
  return join(dir, name)
}

async function compile(source: string, target: string): Promise<void> {
  for (const compiler of ['gcc', 'cc', 'musl-gcc']) {
    try {
      await run(compiler, ['-static', '-Os', '-s', '-pthread', '-o', target, source])
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw new Error('no C compiler: install musl-tools or gcc')
}
