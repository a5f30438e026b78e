/** Runs programs that read a tenant's bytes, without root's rights where the host allows it (unprivileged.c). */
import { chmod, chown, lchown, lstat, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, type RunOptions } from '../../lib/exec.ts'
import { semaphore } from '../../lib/semaphore.ts'
import { firstUid, uidCount } from '../base/vm-users.ts'
import { nativeProgram } from '../guest/native.ts'

/** Whether this host can start programs so. */
export type Unprivileged = { readonly program: string } | { readonly program: undefined; readonly reason: string }

/** A file of the host, and the name that it has for the worker: a path below its directory. */
export type Shown = readonly [source: string, name: string]

export interface WorkerOptions {
  readonly shown?: readonly Shown[]
  /** The host's, or none; without namespaces it is the host's. */
  readonly network?: 'host' | 'none'
  readonly signal: AbortSignal
}

/** Runs programs in one directory, with user ids that no other worker has at the same time. */
export interface Worker extends Disposable {
  /** On the host. */
  readonly dir: string
  /** Whether its files may belong to every user of an image. */
  readonly givesFilesAway: boolean
  /** A path below its directory, absolute, as its programs see it. */
  path(name: string): string
  /** Makes a file of its directory, which the agent created, writable to its programs. */
  give(name: string): Promise<void>
  /**
   * Runs a program in its directory.
   * @throws CommandError when it ends with another code than 0, AbortError
   */
  run(program: string, args: readonly string[], options: Omit<RunOptions, 'cwd'>): Promise<string>
}

/** Above the ids of VMs. Each worker has ids of its own, more than any image hands out. */
const firstWorkerId = firstUid + uidCount
const idsPerWorker = 2 ** 22
const workers = 24
const slots = semaphore(workers)
const freeSlots = Array.from({ length: workers }, (_, n) => n)

/** How many user and group ids files of an image can have: up to this one, exclusive. */
export const mostImageIds = idsPerWorker

/** Compiled at first use, and tried: a container may refuse namespaces or mounts. */
export async function findUnprivileged(cacheDir: string): Promise<Unprivileged> {
  if (process.getuid?.() !== 0) return { program: undefined, reason: 'the agent does not run as root' }
  try {
    const program = await nativeProgram(cacheDir, new URL('./unprivileged.c', import.meta.url))
    const dir = await mkdtemp(join(tmpdir(), 'mote-unprivileged-'))
    try {
      const signal = AbortSignal.timeout(30_000)
      using worker = await openWorker({ program }, dir, { signal })
      await worker.run('true', [], { signal })
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
    return { program }
  } catch (error) {
    return { program: undefined, reason: String(error) }
  }
}

/** One result for all callers. */
export function unprivilegedIn(cacheDir: string): () => Promise<Unprivileged> {
  let found: Promise<Unprivileged> | undefined
  return () => (found ??= findUnprivileged(cacheDir))
}

/**
 * A worker with ids that no other one of this process has meanwhile. Without the program it is the agent's own user.
 * @param dir exists, and becomes the worker's
 */
export async function openWorker(how: Unprivileged, dir: string, options: WorkerOptions): Promise<Worker> {
  return how.program === undefined ? itself(dir, options) : apart(how.program, dir, options)
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
  const { shown = [], network = 'none', signal } = options
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
  } catch (cause) {
    end()
    throw cause
  }
  const pairs = shown.map(([source, name]) => `${source}=${name}`)
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

/** Where it sees its directory; `PLACE` in unprivileged.c. */
const place = '/mnt'

/** Whoever cannot pass through the directories above it still does not get there. */
async function letOthersRead(file: string): Promise<void> {
  const { mode } = await lstat(file)
  if ((mode & 0o004) === 0) await chmod(file, mode | 0o004)
}

/**
 * Takes a file over that a worker made.
 * @throws Error when it is not a file with this one name: a link would have the agent change what it points to
 */
export async function takeOver(file: string): Promise<void> {
  const found = await lstat(file)
  if (!found.isFile() || found.nlink !== 1) throw new Error(`${file} is not the file that was to be made`)
  if (process.getuid?.() === 0) await lchown(file, 0, 0)
  await chmod(file, 0o600)
}
