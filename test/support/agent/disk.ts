/** File systems and ZFS pools in files, for tests. Needs root. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../src/lib/exec.ts'
import { hostLock } from '../../../src/lib/host-lock.ts'
import { hasProgram } from '../../../src/lib/programs.ts'
import { until } from '../wait.ts'

export type LoopFileSystem = 'btrfs' | 'ext4' | 'xfs'

/** Returns why this machine cannot mount the file system on a loop device, or undefined if it can. */
export async function whyNoLoop(kind: LoopFileSystem): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'needs root'
  if (!existsSync('/dev/loop-control')) return 'needs loop devices'
  return (await hasProgram(`mkfs.${kind}`)) ? undefined : `needs mkfs.${kind}`
}

/** Creates a file system in a file and mounts it. Disposal unmounts it. */
export async function loopFileSystem(
  kind: LoopFileSystem,
  dir: string,
  sizeMib: number,
): Promise<{ readonly path: string } & AsyncDisposable> {
  const [image, path] = [join(dir, `${kind}.img`), join(dir, kind)]
  await writeFile(image, '')
  await truncate(image, sizeMib * 2 ** 20)
  await run(`mkfs.${kind}`, ['-q', image])
  await mkdir(path)
  await run('mount', ['-o', 'loop', image, path])
  return {
    path,
    async [Symbol.asyncDispose]() {
      await run('umount', [path])
    },
  }
}

/** Returns why this machine cannot use ZFS, or undefined if it can, by a kernel module or in user space (zfs-fuse). */
export async function whyNoZfs(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'needs root'
  if (!(await hasProgram('zpool'))) return 'needs zpool'
  const inUserSpace = existsSync('/dev/fuse') && (await hasProgram('zfs-fuse'))
  return existsSync('/dev/zfs') || inUserSpace ? undefined : 'needs the module, or zfs-fuse and /dev/fuse'
}

/** Creates a ZFS pool in a file. Only one at a time can exist per machine, because zfs-fuse has a single socket. */
export async function zfsPoolInFile(
  dir: string,
  sizeMib: number,
): Promise<{ readonly dataset: string } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack()
  const lock = await hostLock('zfs of tests')
  stack.defer(() => lock.release())
  if (!existsSync('/dev/zfs')) stack.use(await zfsInUserSpace())
  const [dataset, file] = [`motetest${randomBytes(4).toString('hex')}`, join(dir, 'zfs.img')]
  await writeFile(file, '')
  await truncate(file, sizeMib * 2 ** 20)
  await run('zpool', ['create', '-o', 'cachefile=none', '-m', join(dir, 'zfs'), dataset, file])
  // Unmount lazily: a process that has started in its own mount namespace in the meantime has inherited the mounts, and
  // keeps the pool busy until it exits.
  stack.defer(async () => void (await run('umount', ['-l', join(dir, 'zfs')]).catch(() => undefined)))
  const destroyed = async () => {
    await run('zpool', ['destroy', '-f', dataset]).catch(() => undefined)
    return !(await run('zpool', ['list', '-H', '-o', 'name'])).split('\n').includes(dataset)
  }
  // A pool of zfs-fuse need not be destroyed, because it disappears with its daemon.
  const isKernel = existsSync('/dev/zfs')
  stack.defer(async () => {
    if (isKernel) await until(destroyed, { timeoutMs: 60_000, what: 'the pool to be destroyed' })
    else await destroyed()
  })
  const all = stack.move()
  return { dataset, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

async function zfsInUserSpace(): Promise<AsyncDisposable> {
  await mkdir('/var/run/zfs', { recursive: true })
  await mkdir('/var/lock/zfs', { recursive: true })
  const daemon = spawn('zfs-fuse', ['--no-daemon'], { stdio: 'ignore' })
  const ended = once(daemon, 'exit')
  const answers = () =>
    run('zpool', ['list']).then(
      () => true,
      () => false,
    )
  await until(answers, { what: 'zfs-fuse answers' })
  return {
    async [Symbol.asyncDispose]() {
      daemon.kill('SIGTERM')
      const late = setTimeout(() => daemon.kill('SIGKILL'), 5_000)
      await ended
      clearTimeout(late)
    },
  }
}
