/** Small C libraries that intercept QEMU's calls to its C library. They are compiled on first use. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import { cachedDir } from '../../guest/cache.ts'

/**
 * Compiles the source file and returns the path of the library, for LD_PRELOAD. The library is not linked with other
 * libraries, because it calls functions of the program that loads it.
 * @throws Error if no C compiler is installed
 */
export async function preloadLibrary(cacheDir: string, source: URL): Promise<string> {
  const file = fileURLToPath(source)
  const name = basename(file, '.c')
  const key = createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
    .slice(0, 16)
  const dir = await cachedDir(join(cacheDir, 'init', `${name}-${key}`), target =>
    compile(file, join(target, `${name}.so`)),
  )
  return join(dir, `${name}.so`)
}

async function compile(source: string, target: string): Promise<void> {
  for (const compiler of ['gcc', 'cc', 'musl-gcc']) {
    try {
      await run(compiler, ['-shared', '-nostdlib', '-fPIC', '-Os', '-s', '-o', target, source])
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw new Error('this host has no C compiler, which the agent needs to start QEMU: install gcc or musl-tools')
}
