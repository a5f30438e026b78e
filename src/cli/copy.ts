/** Copies files between this computer and a VM, as tar archives through sessions. */
import { createReadStream, createWriteStream } from 'node:fs'
import { chmod, lstat, mkdir, readdir, readlink, rename, rm, stat, symlink } from 'node:fs/promises'
import { once } from 'node:events'
import { basename, dirname, join, posix } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type Extract as Unpacker, extract, pack, type Pack } from 'tar-stream'
import { listFiles, onFiles, type VmPlace } from './file-session.ts'
import { bytes } from './output.ts'
import { rawBytes } from './terminal.ts'
import type { Call } from './verb.ts'

type Entry = Unpacker extends AsyncIterable<infer Item> ? Item : never

interface Local {
  readonly path: string
  /** Path of the entry in the archive. */
  readonly name: string
  readonly stats: Awaited<ReturnType<typeof lstat>>
}

/** Copies into a VM. @param from `-` for the standard input. @param to path in the VM */
export async function copyIn(call: Call, at: VmPlace, from: string, to: string): Promise<void> {
  if (from === '-') return onFiles(call, at, { action: 'write', path: to }, { input: process.stdin })
  const isInside = to.endsWith('/') || (await isDirectory(call, at, to))
  const files = await treeOf(from, isInside ? basename(from) : posix.basename(to))
  const total = files.reduce((sum, { stats }) => sum + (stats.isFile() ? Number(stats.size) : 0), 0)
  const archive = pack()
  const filled = fill(archive, files)
  filled.catch((cause: unknown) => archive.destroy(cause instanceof Error ? cause : new Error(String(cause))))
  const input = counted(archive, progress(call, total))
  await onFiles(call, at, { action: 'unpack', path: isInside ? to : posix.dirname(to) }, { input })
  await filled
}

async function isDirectory(call: Call, at: VmPlace, path: string): Promise<boolean> {
  const found = await listFiles(call, at, path, 0).catch(() => [])
  return found[0]?.type === 'directory'
}

async function treeOf(path: string, name: string): Promise<Local[]> {
  const stats = await lstat(path)
  const own = { path, name, stats }
  if (!stats.isDirectory()) return stats.isFile() || stats.isSymbolicLink() ? [own] : []
  const inner = await Promise.all(
    (await readdir(path)).toSorted().map(child => treeOf(join(path, child), `${name}/${child}`)),
  )
  return [own, ...inner.flat()]
}

async function fill(archive: Pack, files: readonly Local[]): Promise<void> {
  for (const { path, name, stats } of files) {
    const header = { name, mode: Number(stats.mode) & 0o7777, mtime: stats.mtime }
    if (stats.isDirectory()) archive.entry({ ...header, type: 'directory' })
    else if (stats.isSymbolicLink()) archive.entry({ ...header, type: 'symlink', linkname: await readlink(path) })
    // Read at most the size announced in the archive's header, in case the file grows. An empty file is not read at
    // all.
    else if (stats.size === 0) archive.entry({ ...header, size: 0 })
    else {
      const size = Number(stats.size)
      await pipeline(createReadStream(path, { end: size - 1 }), archive.entry({ ...header, size }))
    }
  }
  archive.finalize()
}

async function* counted(source: AsyncIterable<unknown>, count: (bytes: number) => void) {
  for await (const part of source) {
    if (!(part instanceof Uint8Array)) continue
    count(part.length)
    yield part
  }
}

/** Copies out of a VM. @param from path in the VM. @param to `-` for the standard output */
export async function copyOut(call: Call, at: VmPlace, from: string, to: string): Promise<void> {
  if (to === '-')
    return onFiles(call, at, { action: 'read', path: from }, { onOutput: data => rawBytes('stdout', data) })
  const isInside = to.endsWith('/') || (await stat(to).catch(() => undefined))?.isDirectory()
  const [into, topName] = isInside ? [to, undefined] : [dirname(to), basename(to)]
  await mkdir(into, { recursive: true })
  const count = progress(call, 0)
  const reader = extract()
  const written = takeEntries(reader, into, topName)
  written.catch(() => undefined)
  const onOutput = (data: Uint8Array): void | Promise<void> => {
    count(data.length)
    if (reader.write(data)) return
    // Also wait for `written`, which rejects if a file cannot be written: the archive reader then emits no `drain`.
    return Promise.race([once(reader, 'drain').then(() => undefined), written])
  }
  await onFiles(call, at, { action: 'pack', path: from }, { onOutput })
  reader.end(null)
  await written
}

/** Writes the entries of an archive into a directory. @param topName replaces the first part of each name */
export async function takeEntries(reader: Unpacker, into: string, topName: string | undefined): Promise<void> {
  // Abort the stream of the current entry, because it never ends if the archive is truncated.
  const failed = new AbortController()
  reader.once('error', error => failed.abort(error))
  for await (const entry of reader) await take(entry, { into, topName, signal: failed.signal })
}

interface Destination {
  readonly into: string
  readonly topName: string | undefined
  readonly signal: AbortSignal
}

/**
 * Writes one entry. The VM controls names and links, so the function writes nothing outside of `into` and follows no
 * link.
 */
async function take(entry: Entry, { into, topName, signal }: Destination): Promise<void> {
  const { name, type, mode = 0o644, linkname } = entry.header
  const parts = name.replace(/\/$/, '').split('/')
  if (topName !== undefined) parts[0] = topName
  if (parts.some(part => part === '' || part === '.' || part === '..' || part.includes('\0')))
    throw new Error(`The VM sent a file with an invalid name: ${JSON.stringify(name)}`)
  const path = join(into, ...parts)
  await makeParents(into, parts)
  if (type === 'directory') {
    if (!(await isRealDirectory(path))) await mkdir(path)
    await chmod(path, mode & 0o777)
    entry.resume()
  } else if (type === 'symlink') {
    await rm(path, { force: true })
    await symlink(linkname ?? '', path)
    entry.resume()
  } else await writeWhole(entry, path, { mode: mode & 0o777, signal })
}

async function makeParents(into: string, parts: readonly string[]): Promise<void> {
  for (let depth = 1; depth < parts.length; depth++) {
    const parent = join(into, ...parts.slice(0, depth))
    if (!(await isRealDirectory(parent))) await mkdir(parent)
  }
}

/**
 * Returns true for a directory, and false if nothing has this path.
 * @throws Error for anything else, including a link to a directory
 */
async function isRealDirectory(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined)
  if (found && !found.isDirectory()) throw new Error(`${path} exists and is not a directory.`)
  return found !== undefined
}

/** Writes a file under a temporary name, and renames it once it is complete. */
async function writeWhole(
  entry: Entry,
  path: string,
  { mode, signal }: { readonly mode: number; readonly signal: AbortSignal },
): Promise<void> {
  const partial = `${path}.mote-${process.pid}`
  try {
    await pipeline(entry, createWriteStream(partial, { mode: 0o600, flags: 'wx' }), { signal })
    await chmod(partial, mode)
    await rename(partial, path)
  } catch (cause) {
    await rm(partial, { force: true })
    throw cause
  }
}

const reportMs = 5_000

/** Reports the progress of a copy every five seconds. @param total bytes to copy; 0 if unknown */
function progress({ terminal }: Pick<Call, 'terminal'>, total: number): (count: number) => void {
  const began = performance.now()
  let done = 0
  let reported = began
  return count => {
    done += count
    const now = performance.now()
    if (now - reported < reportMs) return
    reported = now
    const left = total > done ? Math.ceil((((now - began) / done) * (total - done)) / 1000) : undefined
    terminal.line(
      left === undefined ? `${bytes(done)} copied` : `${bytes(done)} of ${bytes(total)}, about ${left} s left`,
    )
  }
}
