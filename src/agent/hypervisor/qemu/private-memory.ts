import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../../lib/exec.ts'
import { hasCode } from '../../../lib/files.ts'
import { cachedDir } from '../../guest/cache.ts'

const source = fileURLToPath(new URL('./private-memory.c', import.meta.url))

/**
 * The environment of a QEMU that maps `memoryFile` privately: private-memory.c keeps it from changing the file.
 * Compiled at first use; it needs no C library.
 */
export async function privateMemoryEnv(cacheDir: string, memoryFile: string): Promise<Record<string, string>> {
  const key = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
    .slice(0, 16)
  const dir = await cachedDir(join(cacheDir, 'init', `private-memory-${key}`), target =>
    compile(join(target, 'private-memory.so')),
  )
  return { LD_PRELOAD: join(dir, 'private-memory.so'), MOTE_PRIVATE_MEMORY: memoryFile }
}

/**
 * The memory that the process maps of this file is its own. Without private-memory.c, which a broken installation may leave
 * out with no more than a warning, it would write into everybody's.
 * @throws Error when it is not
 */
export async function assertPrivate(pid: number, memoryFile: string): Promise<void> {
  const lines = (await readFile(`/proc/${pid}/maps`, 'utf8')).split('\n').filter(line => line.endsWith(memoryFile))
  if (lines.length > 0 && lines.every(line => line.split(' ')[1]?.endsWith('p'))) return
  throw new Error('QEMU did not map the memory privately: its preloaded part was not loaded')
}

async function compile(target: string): Promise<void> {
  for (const compiler of ['gcc', 'cc', 'musl-gcc']) {
    try {
      await run(compiler, ['-shared', '-nostdlib', '-fPIC', '-Os', '-s', '-o', target, source])
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw new Error('no C compiler for starts from a snapshot: install musl-tools or gcc')
}
