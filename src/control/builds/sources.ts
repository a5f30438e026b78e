/** Sources that people have sent, until they are built: files of the control plane, one directory for each app. */
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
/** One is built, one waits, one is being sent; the rest is reserve. */
const keptOfApp = 4
/** No build waits longer. */
const keptMs = hours(24)

/** @throws ApiError 400 for anything but what an upload answered */
export function checkSource(source: string): string {
  const digest = /^sha256:([0-9a-f]{64})$/.exec(source)?.[1]
  if (digest === undefined) throw invalidField('source', 'is what PUT /v1/apps/{app_name}/source answered: sha256:...')
  return digest
}

const fileOf = (dir: string, appId: string, digest: string) => join(dir, appId, `${digest}.tar.gz`)

/** @throws ApiError 400, 409 where sources are not taken, 413 */
export async function keepSource(
  dir: string,
  appId: string,
  upload: Readable,
  signal: AbortSignal,
): Promise<TakenSource> {
  if (dir === '') throw invalidState('This installation takes no sources: it has no directory for them (MOTE_SOURCES).')
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

/** @throws ApiError 409 when it was never sent, or is not kept any more */
export async function assertRetained(dir: string, appId: string, digest: string): Promise<void> {
  const now = new Date()
  try {
    await utimes(fileOf(dir, appId, digest), now, now)
  } catch (cause) {
    if (!hasCode(cause, 'ENOENT')) throw cause
    throw invalidState('That source is not here (any more). Send it again: PUT /v1/apps/{app_name}/source.')
  }
}

/** @returns up to `length` bytes from there on, and how long it is; undefined: it is not kept any more */
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

/** Files of all apps that are a day old. @returns how many */
export async function forgetSources(dir: string, now: Date): Promise<number> {
  const beforeMs = now.getTime() - keptMs
  const apps = dir === '' ? [] : await readdir(dir).catch(() => [])
  let removed = 0
  for (const app of apps) {
    const isOld = (await stat(join(dir, app))).mtimeMs < beforeMs
    removed += await forgetOld(join(dir, app), keptOfApp, beforeMs)
    // Only an empty one goes, and none that an upload has just made.
    if (isOld) await rmdir(join(dir, app)).catch(() => undefined)
  }
  return removed
}

const partialSuffix = '.partial'

/** All but the newest, and what is older than `beforeMs`. An upload that is under way, or broke off, goes by its age alone. */
async function forgetOld(dir: string, kept: number, beforeMs = 0): Promise<number> {
  const files = (await Promise.all((await readdir(dir)).map(name => dated(join(dir, name))))).flat()
  const whole = files.filter(({ file }) => !file.endsWith(partialSuffix)).toSorted((a, b) => b.atMs - a.atMs)
  const beyond = new Set(whole.slice(kept))
  const old = files.filter(one => beyond.has(one) || one.atMs < beforeMs)
  for (const { file } of old) await rm(file, { force: true })
  return old.length
}

/** Another upload of the app may have removed it meanwhile. */
const dated = async (file: string) =>
  stat(file).then(
    ({ mtimeMs }) => [{ file, atMs: mtimeMs }],
    () => [],
  )
