/** Small C programs for system calls that Node.js does not offer. They are compiled on first use. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'

/**
 * Compiles the source file and returns the program's path. It is linked statically, so it needs no library of the host.
 * @throws Error if no C compiler is installed
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
  throw new Error('this host has no C compiler: install musl-tools or gcc')
}
