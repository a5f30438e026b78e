/** Creates a root file system from packages of the distribution, without running any of their scripts. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'

/**
 * Arguments that make `apt-get` and `apt-cache` use the package lists of another release. Empty: the host's own lists.
 */
export type Apt = readonly string[]

/** The packages to install in an image. */
export interface PackageChoice {
  readonly wanted: readonly string[]
  /** Matches dependencies to leave out, together with packages that only they need. */
  readonly unwanted: RegExp
}

/**
 * Returns the names of the wanted packages and of their dependencies. @throws Error that names a package unknown to apt
 */
export async function packageClosure({ wanted, unwanted }: PackageChoice, apt: Apt = []): Promise<string[]> {
  await assertKnown(wanted, apt)
  const found = new Set<string>()
  let next = [...wanted]
  while (next.length > 0) {
    for (const name of next) found.add(name)
    const needed = await dependenciesOf(next, apt)
    next = [...new Set(needed)].filter(name => !found.has(name) && !unwanted.test(name))
  }
  return [...found].toSorted()
}

/** Whether apt has a package with this name. */
export const isPackage = (name: string, apt: Apt = []): Promise<boolean> =>
  run('apt-cache', [...apt, 'show', '-q', '--no-all-versions', name]).then(
    () => true,
    () => false,
  )

async function assertKnown(names: readonly string[], apt: Apt): Promise<void> {
  for (const name of names)
    if (!(await isPackage(name, apt)))
      throw new Error(`apt has no package ${name}. Run apt-get update, or add the repository that has it.`)
}

const quiet = ['recommends', 'suggests', 'conflicts', 'breaks', 'replaces', 'enhances'].map(kind => `--no-${kind}`)

async function dependenciesOf(names: readonly string[], apt: Apt): Promise<string[]> {
  const text = await run('apt-cache', [...apt, 'depends', ...quiet, ...names])
  const needed: string[] = []
  let alternative = false
  for (const line of text.split('\n')) {
    const match = /^ ([ |])(?:Pre)?Depends: (<?)([a-z0-9][a-z0-9+.-]*)/.exec(line)
    // Only the first of several alternatives such as `a | b` is taken. A `<virtual>` package is provided by another
    // chosen package.
    if (match && !alternative && match[2] === '' && match[3]) needed.push(match[3])
    alternative = match?.[1] === '|'
  }
  return needed
}

/** Downloads the packages and unpacks them into `root`. @returns an inventory with `name version` of each package */
export async function unpackPackages(
  names: readonly string[],
  root: string,
  scratch: string,
  apt: Apt = [],
): Promise<string[]> {
  await mkdir(scratch, { recursive: true })
  // apt's own user `_apt` cannot write to root's directory. Without this option, apt would download as root anyway,
  // with a warning.
  await run('apt-get', [...apt, 'download', '-q', '-o', 'APT::Sandbox::User=root', ...names], {
    cwd: scratch,
    timeoutMs: 600_000,
  })
  const inventory: string[] = []
  for (const file of (await readdir(scratch)).filter(name => name.endsWith('.deb')).toSorted()) {
    await run('dpkg-deb', ['-x', file, root], { cwd: scratch })
    inventory.push((await run('dpkg-deb', ['-W', '--showformat=${Package} ${Version}', file], { cwd: scratch })).trim())
    await rm(join(scratch, file))
  }
  return inventory
}

/**
 * Moves the content of /bin, /lib and so on into /usr, like base-files since Debian 12. Some packages of a release
 * still use the old layout.
 */
export async function mergeUsr(root: string): Promise<void> {
  for (const dir of ['bin', 'sbin', 'lib', 'lib64']) {
    const [from, to] = [join(root, dir), join(root, 'usr', dir)]
    await mkdir(to, { recursive: true })
    if (existsSync(from)) await run('cp', ['-a', '--remove-destination', `${from}/.`, to])
    await rm(from, { recursive: true, force: true })
    await symlink(join('usr', dir), from)
  }
}

/**
 * Creates a tar archive that depends only on the content of `dir`: entries are sorted, and have a fixed time and owner.
 */
export async function plainTar(dir: string, file: string, owner: number): Promise<void> {
  const fixed = ['--sort=name', '--mtime=@0', '--numeric-owner', `--owner=${owner}`, `--group=${owner}`]
  await run('tar', [...fixed, '--format=posix', '--pax-option=delete=atime,delete=ctime', '-C', dir, '-cf', file, '.'])
}
