import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { cachedDir } from './cache.ts'

const sourceDir = fileURLToPath(new URL('../../../guest/', import.meta.url))

/** Compilers to try, in this order: a static init has 70 KiB with musl, and ten times as much with glibc. */
const compilers = ['musl-gcc', 'gcc', 'cc'] as const

/** Returns a hash of the source files of the guest's init. */
export async function initSourceHash(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of await sources()) hash.update(file).update(await readFile(join(sourceDir, file)))
  return hash.digest('hex').slice(0, 16)
}

/** Compiles Mote's init, which is the guest's PID 1, on first use, and returns its path. */
export async function buildInit(cacheDir: string, onProgress: (line: string) => void): Promise<string> {
  const dir = await cachedDir(join(cacheDir, 'init', await initSourceHash()), async target => {
    onProgress('compiling the guest init')
    const files = (await sources()).filter(file => file.endsWith('.c')).map(file => join(sourceDir, file))
    await compileStatic(join(target, 'init'), files)
  })
  return join(dir, 'init')
}

/** Compiles a static program for guests. @throws Error that names the packages to install */
export async function compileStatic(target: string, files: readonly string[]): Promise<void> {
  for (const compiler of compilers) {
    try {
      await run(compiler, ['-static', '-Os', '-s', '-o', target, ...files])
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw new Error(
    'this host has no C compiler, which the agent needs to build the programs of the guest: install musl-tools (or gcc with libc6-dev)',
  )
}

async function sources(): Promise<string[]> {
  return (await readdir(sourceDir)).filter(file => /\.[ch]$/.test(file)).sort()
}
