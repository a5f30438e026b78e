/**
 * The kernel package of the host's distribution (`MOTE_KERNEL=distribution`), an alternative to the shipped kernel: for
 * operators who want their distribution's security updates in guests, or modules that the shipped kernel lacks.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { cachedDir } from './cache.ts'
import { extractVmlinux } from './vmlinux.ts'

/**
 * Packages with a kernel that guests can boot, smallest first: Debian's cloud kernel, Debian's default kernel, Ubuntu's
 * kernels.
 */
const candidates = ['linux-image-cloud-amd64', 'linux-image-amd64', 'linux-image-kvm', 'linux-image-virtual'] as const

/**
 * Downloads the distribution's kernel package with apt and unpacks it into the cache, unless the cache has it. Installs
 * nothing and needs no root.
 */
export function distributionKernel(cacheDir: string, onProgress: (line: string) => void): Promise<string> {
  return cachedDir(join(cacheDir, 'kernel'), dir => fetchKernel(dir, onProgress))
}

async function fetchKernel(dir: string, onProgress: (line: string) => void): Promise<void> {
  const name = await packageName()
  onProgress(`downloading the guest kernel ${name}`)
  await run('apt-get', ['download', '-q', name], { cwd: dir, timeoutMs: 300_000 })
  const deb = (await readdir(dir)).find(file => file.endsWith('.deb'))
  if (deb === undefined) throw new Error(`apt-get download ${name} left no package`)
  const tree = join(dir, 'tree')
  await run('dpkg-deb', ['-x', deb, tree], { cwd: dir })
  const bootDir = join(tree, 'boot')
  const image = (await readdir(bootDir)).find(file => file.startsWith('vmlinuz-'))
  if (image === undefined) throw new Error(`${name} holds no kernel`)
  const version = image.slice('vmlinuz-'.length)
  onProgress(`unpacking kernel ${version}`)
  await writeFile(join(dir, 'vmlinux'), await extractVmlinux(await readFile(join(bootDir, image))))
  await run('cp', ['-a', join(tree, await modulesRoot(tree)), join(dir, 'modules')])
  await writeFile(join(dir, 'version'), version)
  await run('rm', ['-rf', tree, join(dir, deb)])
}

/**
 * Returns the directory with a package's kernel modules: older Debian releases use lib/modules/<version>, newer ones
 * usr/lib/modules/<version>.
 */
async function modulesRoot(tree: string): Promise<string> {
  for (const root of ['lib/modules', 'usr/lib/modules']) {
    const [version] = await readdir(join(tree, root)).catch(() => [])
    if (version !== undefined) return join(root, version)
  }
  throw new Error('the kernel package holds no modules')
}

/** Returns the name of the versioned kernel package on which the first known package of `candidates` depends. */
async function packageName(): Promise<string> {
  for (const meta of candidates) {
    const text = await run('apt-cache', ['depends', meta]).catch(() => '')
    const match = /Depends: (linux-image-(?:unsigned-)?[0-9][^\s]*)/.exec(text)
    if (match?.[1] !== undefined) return match[1]
  }
  throw new Error('apt knows no kernel package for guests: run "apt-get update", or set a kernel directory')
}
