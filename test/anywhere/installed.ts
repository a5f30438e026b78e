/**
 * A root file system in which the README's first command has run once. Unusual systems start from it if their unusual
 * property does not affect the installation of packages.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'
import type { Cell } from './cells.ts'
import { cacheDir, checkout } from './roots.ts'

/** Files that determine which packages the first command installs. */
const inputs = [
  'package-lock.json',
  'dashboard/package-lock.json',
  'scripts/system-packages.mjs',
  'scripts/bootstrap.mjs',
]

const templates = '/root/.cache/mote/templates'

/**
 * Returns the path of a tarball of the root file system; builds it if there is none for these packages.
 * @param make creates the root file system in a directory that does not exist yet
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
    // Exclude VM templates (stored memory of booted VMs), so that each unusual system boots its first VM itself.
    const options = ['--numeric-owner', '--xattrs', '--sparse', `--exclude=.${templates}`]
    await run('tar', ['-C', root, ...options, '-cf', `${tarball}.partial`, '.'], { signal })
    await rename(`${tarball}.partial`, tarball)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
  return tarball
}
