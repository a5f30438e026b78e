import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { tryHostLock } from '../../../lib/host-lock.ts'
import { partialSuffix } from '../../guest/cache.ts'

/** Where templates are, below the cache directory. */
export const templatesDir = 'templates'

/** Templates of this machine, shared by its agents, by the key of what they stand for. */
export interface Templates {
  /** The template's directory. It may go at any moment: a start that finds files missing boots instead. */
  find(key: string): Promise<string | undefined>
  /** The right to make the template; undefined: it is there, somebody makes it, or it is of no use. */
  claim(key: string): Promise<TemplateClaim | undefined>
  /** A start from it failed: it goes, and this agent makes no other under this key. One that went by itself is not to blame. */
  distrust(key: string): Promise<void>
  /** Waits for what is being written. */
  close(): Promise<void>
}

export interface TemplateClaim extends AsyncDisposable {
  /** Has the directory filled; it is on the disk, complete, some time later, or not at all. */
  fill(write: (dir: string) => Promise<void>): Promise<void>
}

export interface TemplatesDeps {
  readonly cacheDir: string
  /** Of all together; those that were not used for longest go. 0: there are none. */
  readonly maxMib: number
  readonly onError: (error: unknown) => void
}

/** A key as a directory's name. */
export function templateKey(parts: Readonly<Record<string, unknown>>): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

export function openTemplates({ cacheDir, maxMib, onError }: TemplatesDeps): Templates {
  const root = join(cacheDir, templatesDir)
  const distrusted = new Set<string>()
  const writing = new Set<Promise<void>>()

  const settle = async (partial: string, dir: string) => {
    try {
      await seal(partial)
      await rename(partial, dir)
      await prune(root, maxMib * 2 ** 20)
    } finally {
      await rm(partial, { recursive: true, force: true })
    }
  }

  return {
    async find(key) {
      const dir = join(root, key)
      if (maxMib === 0 || distrusted.has(key) || !existsSync(dir)) return undefined
      const now = new Date()
      await utimes(dir, now, now).catch(onError)
      return dir
    },
    async claim(key) {
      const dir = join(root, key)
      if (maxMib === 0 || distrusted.has(key) || existsSync(dir)) return undefined
      const lock = await tryHostLock(`build ${dir}`)
      if (!lock) return undefined
      let settled = Promise.resolve()
      return {
        async fill(write) {
          const partial = `${dir}${partialSuffix}`
          await rm(partial, { recursive: true, force: true })
          await mkdir(partial, { recursive: true, mode: 0o700 })
          try {
            await write(partial)
          } catch (error) {
            await rm(partial, { recursive: true, force: true })
            throw error
          }
          settled = settle(partial, dir).catch(onError)
        },
        async [Symbol.asyncDispose]() {
          // Nobody waits for the disk: the lock is held until it has everything.
          const end = settled.then(() => lock.release()).finally(() => writing.delete(end))
          writing.add(end)
        },
      }
    },
    async distrust(key) {
      if (existsSync(join(root, key))) distrusted.add(key)
      await rm(join(root, key), { recursive: true, force: true })
    },
    async close() {
      await Promise.all(writing)
    },
  }
}

/** On the disk before it has its name, and no more to be written. */
async function seal(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    const file = await open(join(dir, name))
    try {
      await file.sync()
    } finally {
      await file.close()
    }
    await chmod(join(dir, name), 0o400)
  }
}

/** VMs that were started from one that goes keep its memory file until they end. */
async function prune(root: string, maxBytes: number): Promise<void> {
  const names = (await readdir(root)).filter(name => !name.endsWith(partialSuffix))
  const all = await Promise.all(
    names.map(async name => ({ dir: join(root, name), ...(await sizeOf(join(root, name))) })),
  )
  let total = all.reduce((sum, one) => sum + one.bytes, 0)
  for (const { dir, bytes } of all.toSorted((a, b) => a.usedMs - b.usedMs)) {
    if (total <= maxBytes) return
    await rm(dir, { recursive: true, force: true })
    total -= bytes
  }
}

async function sizeOf(dir: string): Promise<{ readonly bytes: number; readonly usedMs: number }> {
  const { mtimeMs } = await stat(dir)
  let bytes = 0
  for (const name of await readdir(dir)) bytes += (await stat(join(dir, name))).blocks * 512
  return { bytes, usedMs: mtimeMs }
}
