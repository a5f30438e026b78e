/** Starts a VMM without a network but its tap (netless.c). */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { cachedDir } from '../guest/cache.ts'

const source = fileURLToPath(new URL('./netless.c', import.meta.url))

/** What the tap is open as. */
export const tapFd = 3

/**
 * The program, compiled at first use. It is static, so that it does not read a library that is preloaded for the VMM.
 * @throws Error where there is no compiler
 */
export async function buildNetless(cacheDir: string): Promise<string> {
  const key = createHash('sha256')
    .update(await readFile(source))
    .digest('hex')
    .slice(0, 16)
  const dir = await cachedDir(join(cacheDir, 'init', `netless-${key}`), target => compile(join(target, 'netless')))
  return join(dir, 'netless')
}

/** The command that starts this one so. */
export const withoutNetwork = (
  netless: string,
  tap: string,
  program: string,
  args: readonly string[],
): { readonly program: string; readonly args: readonly string[] } => ({
  program: netless,
  args: [tap, String(tapFd), program, ...args],
})

async function compile(target: string): Promise<void> {
  for (const compiler of ['gcc', 'cc', 'musl-gcc']) {
    try {
      await run(compiler, ['-static', '-Os', '-s', '-o', target, source])
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  throw new Error('no C compiler: install musl-tools or gcc')
}
