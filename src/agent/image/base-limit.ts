/**
 * Limits the disk space of bases (the read-only file systems made from images) on this host, for all agents that share
 * the cache.
 */
import { createHash } from 'node:crypto'
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { privateDir, readIfExists } from '../../lib/files.ts'
import { tryHostLock } from '../../lib/host-lock.ts'
import { partialSuffix } from '../guest/cache.ts'

export interface BaseLimit {
  readonly cacheDir: string
  /** Limit on the size of all bases together. Bases in use may exceed it. */
  readonly maxMib: number
  /**
   * A base that was used within this time is kept, because the VM that uses it may not have a record yet. Default: an
   * hour, which is longer than any start of a VM.
   */
  readonly idleMs?: number
}

const agentsOf = (cacheDir: string) => join(cacheDir, 'agents')

/** Registers an agent that shares the cache, so that no other agent removes the bases of its VMs and snapshots. */
export async function registerAgent(cacheDir: string, dataDir: string): Promise<void> {
  await privateDir(agentsOf(cacheDir))
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 32)
  await writeFile(join(agentsOf(cacheDir), name), dataDir, { mode: 0o600 })
  await registered(cacheDir)
}

/**
 * Removes the least recently used bases until the size of the remaining ones is within the limit. Keeps bases that a
 * process has open, and bases that a VM or snapshot of any registered agent refers to.
 * @returns names of the removed bases
 */
export async function limitBases({ cacheDir, maxMib, idleMs = 3_600_000 }: BaseLimit): Promise<string[]> {
  const lock = await tryHostLock(`limit ${cacheDir}`)
  if (!lock) return []
  try {
    const root = join(cacheDir, 'bases')
    const all = (await Promise.all((await namesIn(root)).map(name => baseIn(root, name)))).filter(
      one => one !== undefined,
    )
    let left = all.reduce((sum, one) => sum + one.bytes, 0) - maxMib * 2 ** 20
    const idle = all.filter(one => Date.now() - one.usedMs >= idleMs)
    if (left <= 0 || idle.length === 0) return []
    const isUsed = await usedBases(cacheDir)
    const removed: string[] = []
    for (const one of idle.toSorted((a, b) => a.usedMs - b.usedMs)) {
      if (left <= 0) break
      if (isUsed(one) || !(await remove(root, one, idleMs))) continue
      left -= one.bytes
      removed.push(one.name)
    }
    return removed
  } finally {
    await lock.release()
  }
}

interface StoredBase {
  readonly name: string
  readonly bytes: number
  readonly usedMs: number
  /** Inode of the base's disk, by which it is found among the files that processes have open. */
  readonly inode: string
}

const namesIn = async (dir: string) =>
  (await readdir(dir).catch(() => [])).filter(name => !name.endsWith(partialSuffix))

const inodeOf = ({ dev, ino }: { readonly dev: number; readonly ino: number }) => `${dev} ${ino}`

/** Returns a base's size and last use. @returns undefined if another process removes the base at the same time */
async function baseIn(root: string, name: string): Promise<StoredBase | undefined> {
  const dir = join(root, name)
  try {
    const [{ mtimeMs }, file] = await Promise.all([stat(dir), stat(join(dir, 'base.img'))])
    let bytes = file.blocks * 512
    const seed = await readdir(join(dir, 'seed'), { withFileTypes: true, recursive: true }).catch(() => [])
    for (const one of seed.filter(entry => entry.isFile())) bytes += (await stat(join(one.parentPath, one.name))).size
    return { name, bytes, usedMs: mtimeMs, inode: inodeOf(file) }
  } catch {
    return undefined
  }
}

/**
 * Returns a function that tells whether a process has the base open, or a VM or snapshot of a registered agent refers
 * to it.
 */
async function usedBases(cacheDir: string): Promise<(base: StoredBase) => boolean> {
  const [open, named] = await Promise.all([openInodes(), namedDigests(cacheDir)])
  return ({ name, inode }) => open.has(inode) || named.has(digestIn(name))
}

const digestIn = (name: string) => /[0-9a-f]{64}/.exec(name)?.[0] ?? ''

/**
 * Returns the inodes of all files that processes have open. An agent sees at least the processes of its own user, and
 * thus its own VMMs.
 */
async function openInodes(): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const pid of (await readdir('/proc')).filter(name => /^\d+$/.test(name))) {
    const dir = join('/proc', pid, 'fd')
    for (const fd of await readdir(dir).catch(() => [])) {
      const file = await stat(join(dir, fd)).catch(() => undefined)
      if (file?.isFile()) found.add(inodeOf(file))
    }
  }
  return found
}

async function namedDigests(cacheDir: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const dataDir of await registered(cacheDir))
    for (const text of await recordsOf(dataDir))
      for (const [digest] of text.matchAll(/[0-9a-f]{64}/g)) found.add(digest)
  return found
}

/**
 * Returns the data directories of registered agents, and removes registrations whose data directory no longer exists.
 */
async function registered(cacheDir: string): Promise<string[]> {
  const found: string[] = []
  for (const name of await namesIn(agentsOf(cacheDir))) {
    const file = join(agentsOf(cacheDir), name)
    const dataDir = (await readIfExists(file)) ?? ''
    if (await stat(join(dataDir, 'vms')).catch(() => undefined)) found.push(dataDir)
    else await rm(file, { force: true })
  }
  return found
}

/**
 * Returns the stored files of an agent's VMs and snapshots as text. They are not parsed, because the agent may have
 * another release; callers search them for digests.
 */
async function recordsOf(dataDir: string): Promise<string[]> {
  const files = { vms: ['wish.json', 'record.json'], snapshots: ['wish.json', 'outcome.json'] }
  const texts: string[] = []
  for (const [kind, names] of Object.entries(files))
    for (const id of await readdir(join(dataDir, kind)).catch(() => []))
      for (const name of names) texts.push((await readIfExists(join(dataDir, kind, id, name))) ?? '')
  return texts
}

/** Removes a base. @returns false if another process used or removed it at the same time */
async function remove(root: string, { name }: StoredBase, idleMs: number): Promise<boolean> {
  const [dir, partial] = [join(root, name), join(root, `${name}.removed${partialSuffix}`)]
  try {
    await rename(dir, partial)
    if (Date.now() - (await stat(partial)).mtimeMs < idleMs) {
      await rename(partial, dir)
      return false
    }
    await rm(partial, { recursive: true, force: true })
    return true
  } catch {
    return false
  }
}
