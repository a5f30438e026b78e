import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { sealFiles } from '../../../lib/files.ts'
import { tryHostLock } from '../../../lib/host-lock.ts'
import { partialSuffix } from '../../guest/cache.ts'

/** Directory of the templates, below the cache directory. */
export const templatesDir = 'templates'

/** The templates of this host, by key. All agents on the host share them. */
export interface Templates {
  /**
   * Returns the directory of the template with this key. The directory may be deleted at any time; a VM's start that
   * misses a file boots the kernel instead.
   */
  find(key: string): Promise<string | undefined>
  /** Claims the right to create the template. Undefined if it exists, is being created, or its key is banned. */
  claim(key: string): Promise<TemplateClaim | undefined>
  /**
   * Deletes a template after a failed start, and bans its key for this agent. A template that was already evicted is
   * not banned.
   */
  distrust(key: string): Promise<void>
  /** Waits until all templates that are being written are on disk. */
  close(): Promise<void>
}

export interface TemplateClaim extends AsyncDisposable {
  /** Fills the template's directory by calling `write`. The template becomes visible later, complete or not at all. */
  fill(write: (dir: string) => Promise<void>): Promise<void>
}

export interface TemplatesDeps {
  readonly cacheDir: string
  /** Limit on the disk space for all templates; the least recently used ones are evicted. 0 disables templates. */
  readonly maxMib: number
  readonly onError: (error: unknown) => void
}

/** Hashes all parts into a key, which is also the name of the template's directory. */
export function templateKey(parts: Readonly<Record<string, unknown>>): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

export function openTemplates({ cacheDir, maxMib, onError }: TemplatesDeps): Templates {
  const root = join(cacheDir, templatesDir)
  const distrusted = new Set<string>()
  const writing = new Set<Promise<void>>()

  const settle = async (partial: string, dir: string) => {
    try {
      await sealFiles(partial)
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
          // The VM's start does not wait until the template is on disk. The lock is held until then.
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

/**
 * Evicts the least recently used templates. A VM that was started from an evicted template keeps its memory file open
 * until the VM ends.
 */
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
