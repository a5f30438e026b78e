/** Stores uploaded sources until they are built: as files of the control plane, in one directory per app. */
import { mkdir, open, readdir, rename, rm, rmdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { hours } from '../../lib/duration.ts'
import { hasCode } from '../../lib/files.ts'
import { newId } from '../../lib/ids.ts'
import { invalidField, invalidState } from '../http/errors.ts'
import { takeSource } from './source-archive.ts'
import type { TakenSource } from './source-rewrite.ts'

const unpackedLimits = { maxBytes: 512 << 20, maxEntries: 50_000 }
/**
 * Maximum number of uploaded sources per app: one that is being built, one that is queued, one that is being uploaded,
 * and one in reserve.
 */
const keptOfApp = 4
/** Time after which an uploaded source is deleted. No build is queued for longer. */
const keptMs = hours(24)

/**
 * Returns the digest from the name of an uploaded source.
 * @throws ApiError 400 unless the name has the form that an upload returns
 */
export function checkSource(source: string): string {
  const digest = /^sha256:([0-9a-f]{64})$/.exec(source)?.[1]
  if (digest === undefined)
    throw invalidField('source', 'must be the source that PUT /v1/apps/{app_name}/source returned: sha256:...')
  return digest
}

const fileOf = (dir: string, appId: string, digest: string) => join(dir, appId, `${digest}.tar.gz`)

/** Stores an uploaded source. @throws ApiError 400, 409 when uploads are disabled, 413 */
export async function keepSource(
  dir: string,
  appId: string,
  upload: Readable,
  signal: AbortSignal,
): Promise<TakenSource> {
  if (dir === '')
    throw invalidState(
      'This installation accepts no source uploads, because it has no directory for them (MOTE_SOURCES).',
    )
  await mkdir(join(dir, appId), { recursive: true, mode: 0o700 })
  const partial = join(dir, appId, `${newId()}${partialSuffix}`)
  try {
    const taken = await takeSource(upload, partial, unpackedLimits, signal)
    await rename(partial, fileOf(dir, appId, taken.digest))
    await forgetOld(join(dir, appId), keptOfApp)
    return taken
  } finally {
    await rm(partial, { force: true })
  }
}

/**
 * Checks that the uploaded source exists, and sets its modification time to now, so that it is retained for another
 * day.
 * @throws ApiError 409 when the source does not exist or was deleted
 */
export async function assertRetained(dir: string, appId: string, digest: string): Promise<void> {
  const now = new Date()
  try {
    await utimes(fileOf(dir, appId, digest), now, now)
  } catch (cause) {
    if (!hasCode(cause, 'ENOENT')) throw cause
    throw invalidState('That source does not exist or was deleted. Send it again: PUT /v1/apps/{app_name}/source.')
  }
}

/**
 * Reads a part of an uploaded source.
 * @returns up to `length` bytes from `offset`, and the total size; undefined when the source was deleted
 */
export async function readSource(
  dir: string,
  at: { readonly appId: string; readonly digest: string; readonly offset: number; readonly length: number },
): Promise<{ readonly data: Buffer; readonly sizeBytes: number } | undefined> {
  const handle = await open(fileOf(dir, at.appId, at.digest)).catch((cause: unknown) => {
    if (hasCode(cause, 'ENOENT')) return undefined
    throw cause
  })
  if (!handle) return undefined
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(at.length), 0, at.length, at.offset)
    return { data: buffer.subarray(0, bytesRead), sizeBytes: size }
  } finally {
    await handle.close()
  }
}

/** Deletes uploaded sources that are older than a day, of all apps. @returns the number of deleted files */
export async function forgetSources(dir: string, now: Date): Promise<number> {
  const beforeMs = now.getTime() - keptMs
  const apps = dir === '' ? [] : await readdir(dir).catch(() => [])
  let removed = 0
  for (const app of apps) {
    const isOld = (await stat(join(dir, app))).mtimeMs < beforeMs
    removed += await forgetOld(join(dir, app), keptOfApp, beforeMs)
    // rmdir removes only empty directories. A new directory is not removed, because an upload into it may be in
    // progress.
    if (isOld) await rmdir(join(dir, app)).catch(() => undefined)
  }
  return removed
}

const partialSuffix = '.partial'

/**
 * Deletes all but the newest `kept` sources of an app, and files older than `beforeMs`. Partial uploads are deleted by
 * age only.
 * @returns the number of deleted files
 */
async function forgetOld(dir: string, kept: number, beforeMs = 0): Promise<number> {
  const files = (await Promise.all((await readdir(dir)).map(name => dated(join(dir, name))))).flat()
  const whole = files.filter(({ file }) => !file.endsWith(partialSuffix)).toSorted((a, b) => b.atMs - a.atMs)
  const beyond = new Set(whole.slice(kept))
  const old = files.filter(one => beyond.has(one) || one.atMs < beforeMs)
  for (const { file } of old) await rm(file, { force: true })
  return old.length
}

/**
 * Returns the file with its modification time; an empty list if another upload of the app has deleted the file in the
 * meantime.
 */
const dated = async (file: string) =>
  stat(file).then(
    ({ mtimeMs }) => [{ file, atMs: mtimeMs }],
    () => [],
  )
