/** Runs programs that read a tenant's data, without root privileges if the host supports that (unprivileged.c). */
import { chmod, chown, lchown, lstat, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, type RunOptions } from '../../lib/exec.ts'
import { semaphore } from '../../lib/semaphore.ts'
import { firstUid, uidCount } from '../base/vm-users.ts'
import { nativeProgram } from '../guest/native.ts'

/**
 * Tells whether this host can run programs without privileges. `hasDisks`: whether a worker can have its own disk,
 * which limits what its programs write.
 */
export type Unprivileged =
  | { readonly program: string; readonly hasDisks: boolean }
  | { readonly program: undefined; readonly reason: string }

/** A file system of fixed size for a worker, which limits what the worker's programs write. */
export interface Disk {
  /** Path of the disk image, outside the worker's directory. All its space on the host is allocated at once. */
  readonly file: string
  /** Directory below the worker's directory where the disk is mounted. Only the worker's programs see its content. */
  readonly name: string
  readonly bytes: number
  readonly files: number
}

/** A file of the host, and the path below the worker's directory at which programs see it, read-only. */
export type Shown = readonly [source: string, name: string]

export interface WorkerOptions {
  readonly shown?: readonly Shown[]
  /** Limits what the worker's programs write. Ignored on hosts without loop devices. */
  readonly disk?: Disk
  /** The network of the programs: the host's or none. On hosts without namespaces, it is always the host's. */
  readonly network?: 'host' | 'none'
  readonly signal: AbortSignal
}

/** Runs programs in one directory, with user ids that no other worker uses at the same time. */
export interface Worker extends Disposable {
  /** Path of the worker's directory on the host. */
  readonly dir: string
  /** True if the programs can change the owner of their files to any user of an image. */
  readonly givesFilesAway: boolean
  /** Returns the absolute path at which programs see this file of the worker's directory. */
  path(name: string): string
  /** Makes a file that the agent created in the worker's directory writable for the worker's programs. */
  give(name: string): Promise<void>
  /** Runs a program in the worker's directory. @throws CommandError if the program's exit code is not 0, AbortError */
  run(program: string, args: readonly string[], options: Omit<RunOptions, 'cwd'>): Promise<string>
}

/**
 * The first user id for workers, above the user ids of VMs. Each worker has its own range of ids, larger than the range
 * that any image uses.
 */
const firstWorkerId = firstUid + uidCount
const idsPerWorker = 2 ** 22
const workers = 24
const slots = semaphore(workers)
const freeSlots = Array.from({ length: workers }, (_, n) => n)

/** Upper limit (exclusive) on user and group ids in images. */
export const mostImageIds = idsPerWorker

/** Compiles unprivileged.c, and tests the program, because a container may forbid namespaces or mounts. */
export async function findUnprivileged(cacheDir: string): Promise<Unprivileged> {
  if (process.getuid?.() !== 0) return { program: undefined, reason: 'the agent does not run as root' }
  try {
    const program = await nativeProgram(cacheDir, new URL('./unprivileged.c', import.meta.url))
    const dir = await mkdtemp(join(tmpdir(), 'mote-unprivileged-'))
    try {
      const signal = AbortSignal.timeout(30_000)
      const work = join(dir, 'work')
      await mkdir(work)
      const attempt = async (more: Partial<WorkerOptions>) => {
        using worker = await openWorker({ program, hasDisks: true }, work, { ...more, signal })
        await worker.run('true', [], { signal })
      }
      await attempt({})
      const disk = { file: join(dir, 'disk'), name: 'disk', bytes: 4 << 20, files: 16 }
      const hasDisks = await attempt({ disk }).then(
        () => true,
        () => false,
      )
      return { program, hasDisks }
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  } catch (error) {
    return { program: undefined, reason: String(error) }
  }
}

/** Returns a function that calls `findUnprivileged` once and returns the same result to all callers. */
export function unprivilegedIn(cacheDir: string): () => Promise<Unprivileged> {
  let found: Promise<Unprivileged> | undefined
  return () => (found ??= findUnprivileged(cacheDir))
}

/**
 * Opens a worker with user ids that no other worker of this process uses. Without namespaces, its programs run as the
 * agent's user.
 * @param dir an existing directory; the worker's first user becomes its owner
 */
export async function openWorker(how: Unprivileged, dir: string, options: WorkerOptions): Promise<Worker> {
  if (how.program === undefined) return itself(dir, options)
  const { disk, ...others } = options
  return apart(how.program, dir, how.hasDisks && disk ? options : others)
}

async function itself(dir: string, { shown = [] }: WorkerOptions): Promise<Worker> {
  for (const [source, name] of shown) await symlink(source, join(dir, name))
  return {
    dir,
    givesFilesAway: process.getuid?.() === 0,
    path: name => join(dir, name),
    give: () => Promise.resolve(),
    run: (program, args, options) => run(program, args, { ...options, cwd: dir }),
    [Symbol.dispose]: () => undefined,
  }
}

async function apart(program: string, dir: string, options: WorkerOptions): Promise<Worker> {
  const { shown = [], disk, network = 'none', signal } = options
  const release = await slots.take(signal)
  const slot = freeSlots.pop() ?? 0
  const end = () => {
    freeSlots.push(slot)
    release()
  }
  const owner = firstWorkerId + slot * idsPerWorker
  try {
    await chown(dir, owner, owner)
    for (const [source] of shown) await letOthersRead(source)
    if (disk) await makeDisk(disk, owner, signal)
  } catch (cause) {
    end()
    throw cause
  }
  const pairs = shown.map(([source, name]) => `${source}=${name}`)
  if (disk) pairs.push(`@${disk.file}=${disk.name}`)
  const before = [String(owner), String(idsPerWorker), dir, network, ...pairs, '--']
  return {
    dir,
    givesFilesAway: true,
    path: name => join(place, name),
    give: name => lchown(join(dir, name), owner, owner),
    run: (name, args, its) => run(program, [...before, name, ...args], { network: network === 'host', ...its }),
    [Symbol.dispose]: end,
  }
}

/** Minimum size of a disk. On a smaller one, mkfs.ext4 would not create a usable block group. */
const smallestDisk = 4 << 20

/**
 * Creates the disk image, and allocates its space on the host before a program writes. If the image were sparse and the
 * host's disk full, blocks that a program believes to be written would be lost.
 */
async function makeDisk({ file, bytes, files }: Disk, owner: number, signal: AbortSignal): Promise<void> {
  const size = Math.ceil(Math.max(bytes, smallestDisk) / 4096) * 4096
  await run('fallocate', ['-l', String(size), file], { signal })
  const features = ['-O', '^has_journal,^resize_inode', '-m', '0', '-b', '4096', '-N', String(files + 64)]
  const extended = `lazy_itable_init=1,nodiscard,root_owner=${owner}:${owner}`
  await run('mkfs.ext4', ['-q', '-F', ...features, '-E', extended, file], { signal })
}

/** The path at which the worker's directory is mounted for its programs; `PLACE` in unprivileged.c. */
const place = '/mnt'

/** Makes a file readable for all users. A user without access to the file's parent directories still cannot read it. */
async function letOthersRead(file: string): Promise<void> {
  const { mode } = await lstat(file)
  if ((mode & 0o004) === 0) await chmod(file, mode | 0o004)
}

/**
 * Makes the agent the owner of a file that a worker created.
 * @throws Error if the path is not a regular file with a single name, because the agent would change the target of a
 * link
 */
export async function takeOver(file: string): Promise<void> {
  const found = await lstat(file)
  if (!found.isFile() || found.nlink !== 1) throw new Error(`${file} is not a regular file with a single name`)
  if (process.getuid?.() === 0) await lchown(file, 0, 0)
  await chmod(file, 0o600)
}
