import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { hostLock, tryHostLock } from '../../lib/host-lock.ts'

const inFlight = new Map<string, Promise<string>>()

/** Suffix of directories that are being built; what is left of one after a crash is removed at start. */
export const partialSuffix = '.partial'

/**
 * The directory `path`, built at most once: callers of this process share one build, other processes wait for it. It
 * appears complete or not at all.
 * @param build fills the empty directory that it is given.
 */
export function cachedDir(path: string, build: (dir: string) => Promise<void>): Promise<string> {
  const key = resolve(path)
  const running = inFlight.get(key)
  if (running) return running
  const started = buildLocked(key, build).finally(() => inFlight.delete(key))
  inFlight.set(key, started)
  return started
}

/** Longer than anything takes to build. */
const youngMs = 3_600_000
const attemptSuffix = /\.[0-9a-f]{8}$/

/**
 * Removes what a crash left of a build, unless somebody is building it right now. An agent in another network namespace
 * does not see our lock, and we not its: what is young is left alone.
 */
export async function removePartial(partial: string): Promise<void> {
  const attempt = resolve(partial).slice(0, -partialSuffix.length)
  const path = attempt.replace(attemptSuffix, '')
  const found = await stat(partial).catch(() => undefined)
  if (found && attemptSuffix.test(attempt) && Date.now() - found.mtimeMs < youngMs) return
  const lock = await tryHostLock(lockName(path))
  if (!lock) return
  try {
    await rm(partial, { recursive: true, force: true })
  } finally {
    await lock.release()
  }
}

const lockName = (path: string) => `build ${path}`

async function buildLocked(path: string, build: (dir: string) => Promise<void>): Promise<string> {
  if (existsSync(path)) return path
  const lock = await hostLock(lockName(path))
  try {
    if (existsSync(path)) return path
    const partial = `${path}.${randomBytes(4).toString('hex')}${partialSuffix}`
    await mkdir(dirname(path), { recursive: true })
    await mkdir(partial)
    try {
      await build(partial)
      // One in another network namespace may have been quicker; what is there is as good.
      await rename(partial, path).catch((error: unknown) => {
        if (!existsSync(path)) throw error
      })
    } finally {
      await rm(partial, { recursive: true, force: true })
    }
    return path
  } finally {
    await lock.release()
  }
}
