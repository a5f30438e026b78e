/**
 * A root in which the first command has run once. Unusual machines whose oddity does not affect the installation start
 * from it.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'
import type { Cell } from './cells.ts'
import { cacheDir, checkout } from './roots.ts'

/** Files that determine the installed packages. */
const inputs = [
  'package-lock.json',
  'dashboard/package-lock.json',
  'scripts/system-packages.mjs',
  'scripts/bootstrap.mjs',
]

const templates = '/root/.cache/mote/templates'

/**
 * Returns the tarball of the root; builds it if there is none for these packages.
 * @param make creates the root in a directory that does not exist yet
 */
export async function installedTarball(
  { distribution, node }: Cell,
  signal: AbortSignal,
  make: (root: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256')
  for (const file of inputs) hash.update(await readFile(join(checkout, file)))
  const prefix = `${distribution}-${node}-installed-`
  const tarball = join(cacheDir, 'roots', `${prefix}${hash.digest('hex').slice(0, 16)}.tar`)
  if (existsSync(tarball)) return tarball
  for (const old of await readdir(join(cacheDir, 'roots')).catch(() => []))
    if (old.startsWith(prefix)) await rm(join(cacheDir, 'roots', old))
  const root = join(cacheDir, 'cells', `installed-${process.pid}`)
  try {
    await make(root)
    // VM templates are excluded, so that an unusual machine boots its first VM itself.
    const options = ['--numeric-owner', '--xattrs', '--sparse', `--exclude=.${templates}`]
    await run('tar', ['-C', root, ...options, '-cf', `${tarball}.partial`, '.'], { signal })
    await rename(`${tarball}.partial`, tarball)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
  return tarball
}
