/** A root file system from packages of the distribution, without running a line of their scripts. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'

/** Arguments before those of `apt-get` and `apt-cache`: which lists they read. None: those of the host. */
export type Apt = readonly string[]

/** Why there are packages that are not wanted: what they are for happens outside of a microVM, or never. */
export interface PackageChoice {
  readonly wanted: readonly string[]
  /** Left out with all that only they need. */
  readonly unwanted: RegExp
}

/** The wanted packages and what they need, by name. @throws Error that says which package apt does not know */
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

/** Whether there is a package of that name. */
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
    // Of `a | b` the first is taken; `<virtual>` packages are provided by others of the choice.
    if (match && !alternative && match[2] === '' && match[3]) needed.push(match[3])
    alternative = match?.[1] === '|'
  }
  return needed
}

/** Downloads the packages and unpacks them into `root`. @returns `name version` of each, as an inventory. */
export async function unpackPackages(
  names: readonly string[],
  root: string,
  scratch: string,
  apt: Apt = [],
): Promise<string[]> {
  await mkdir(scratch, { recursive: true })
  // `_apt` may not write where only root may: apt then downloads as root, and says so.
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

/** Everything into `usr`, as base-files has it since Debian 12: packages of one release are of both kinds. */
export async function mergeUsr(root: string): Promise<void> {
  for (const dir of ['bin', 'sbin', 'lib', 'lib64']) {
    const [from, to] = [join(root, dir), join(root, 'usr', dir)]
    await mkdir(to, { recursive: true })
    if (existsSync(from)) await run('cp', ['-a', '--remove-destination', `${from}/.`, to])
    await rm(from, { recursive: true, force: true })
    await symlink(join('usr', dir), from)
  }
}

/** A tar of `dir` that depends on nothing but its content: sorted, no times, one owner. */
export async function plainTar(dir: string, file: string, owner: number): Promise<void> {
  const fixed = ['--sort=name', '--mtime=@0', '--numeric-owner', `--owner=${owner}`, `--group=${owner}`]
  await run('tar', [...fixed, '--format=posix', '--pax-option=delete=atime,delete=ctime', '-C', dir, '-cf', file, '.'])
}
