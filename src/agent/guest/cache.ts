import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { hostLock, tryHostLock } from '../../lib/host-lock.ts'

const inFlight = new Map<string, Promise<string>>()

/**
 * Suffix of cache directories that are still being built. When the agent starts, it removes those that a crash left.
 */
export const partialSuffix = '.partial'

/**
 * Returns the directory `path`, and builds it if it does not exist. Concurrent callers in this process share one build,
 * and other processes wait for the lock of the build. The directory appears complete or not at all.
 * @param build fills an empty directory.
 */
export function cachedDir(path: string, build: (dir: string) => Promise<void>): Promise<string> {
  const key = resolve(path)
  const running = inFlight.get(key)
  if (running) return running
  const started = buildLocked(key, build).finally(() => inFlight.delete(key))
  inFlight.set(key, started)
  return started
}

/** A partial directory that is younger than this may belong to a build in progress: no build takes an hour. */
const youngMs = 3_600_000
const attemptSuffix = /\.[0-9a-f]{8}$/

/**
 * Removes the leftovers of a crashed build, unless the build is in progress. Agents in other network namespaces cannot
 * see the lock of a build, so partial directories of the last hour are kept.
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
      // An agent in another network namespace may have built the directory first. Its content is equivalent.
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
