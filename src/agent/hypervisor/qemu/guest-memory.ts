import { type FileHandle, open, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { copySparse, copyWritable } from '../snapshot-files.ts'

/** Name of the file with the guest's memory in a snapshot or template. */
export const memoryName = 'memory'

/**
 * Where QEMU has a guest's memory. `shared`: in a memfd. `private`: in a private mapping of a file (private-memory.c);
 * pages that the guest has changed exist only in QEMU's process.
 */
export type GuestMemory =
  | { readonly kind: 'shared'; readonly file: string }
  | { readonly kind: 'private'; readonly file: string; readonly pid: number; readonly parts: readonly Part[] }

/** An address range of QEMU's process, and its offset in the memory file, in bytes. */
interface Part {
  readonly from: number
  readonly to: number
  readonly offset: number
}

/**
 * Locates the guest's memory. Undefined if the agent cannot read it; QEMU then has to include it in the saved state.
 */
export async function memoryOf(pid: number): Promise<GuestMemory | undefined> {
  const fds = `/proc/${pid}/fd`
  for (const name of await readdir(fds)) {
    const file = join(fds, name)
    const target = await readlink(file).catch(() => '')
    if (target.startsWith('/memfd:memory-backend-memfd')) return { kind: 'shared', file }
    // The file may be deleted already; QEMU's process still has it open.
    if (!target.replace(/ \(deleted\)$/, '').endsWith(`/${memoryName}`)) continue
    const parts = privateParts(await readFile(`/proc/${pid}/maps`, 'utf8'), target)
    if (parts.length > 0 && (await mayRead(pid))) return { kind: 'private', file, pid, parts }
  }
  return undefined
}

/** Parses proc_pid_maps(5): `from-to permissions offset device inode path`. */
function privateParts(maps: string, path: string): Part[] {
  return maps.split('\n').flatMap(line => {
    const match = /^([0-9a-f]+)-([0-9a-f]+) rw.p ([0-9a-f]+) \S+ \d+ +(.*)$/.exec(line)
    if (match?.[4] !== path) return []
    const [from = 0, to = 0, offset = 0] = match.slice(1, 4).map(hex => Number.parseInt(hex, 16))
    return [{ from, to, offset }]
  })
}

/**
 * True if the agent may read the process's memory. False for an agent that is not root on a host where only a parent
 * may trace a process (Yama).
 */
async function mayRead(pid: number): Promise<boolean> {
  const mem = await open(`/proc/${pid}/mem`).catch(() => undefined)
  await mem?.close()
  return mem !== undefined
}

/** Copies the memory of a paused guest to a file. Pages that the guest has never touched stay holes. */
export async function copyMemory(memory: GuestMemory, target: string): Promise<void> {
  if (memory.kind === 'shared') return copySparse(memory.file, target)
  await copyWritable(memory.file, target)
  await using files = new AsyncDisposableStack()
  const opened = async (path: string, flags: string): Promise<FileHandle> => {
    const file = await open(path, flags)
    files.defer(() => file.close())
    return file
  }
  const pagemap = await opened(`/proc/${memory.pid}/pagemap`, 'r')
  const mem = await opened(`/proc/${memory.pid}/mem`, 'r')
  const to = await opened(target, 'r+')
  for (const part of memory.parts) for await (const run of changed(pagemap, part)) await copyRun(mem, to, run)
}

const pageBytes = 4096
const entryBytes = 8
const entriesAtOnce = 1 << 15
const runBytes = 4 << 20

/** Yields the ranges of pages that the guest has changed, so that QEMU's process has its own copies of them. */
async function* changed(pagemap: FileHandle, { from, to, offset }: Part): AsyncGenerator<Part> {
  const entries = Buffer.alloc(entriesAtOnce * entryBytes)
  let run: Part | undefined
  for (let at = from; at < to; at += entriesAtOnce * pageBytes) {
    const count = Math.min(entriesAtOnce, (to - at) / pageBytes)
    const { bytesRead } = await pagemap.read(entries, 0, count * entryBytes, (at / pageBytes) * entryBytes)
    if (bytesRead !== count * entryBytes) throw new Error('the page map of the process cannot be read')
    for (let index = 0; index < count; index++) {
      const page = at + index * pageBytes
      const own = isOwn(entries.readUInt32LE(index * entryBytes + 4))
      if (own && run?.to === page && page - run.from < runBytes) run = { ...run, to: page + pageBytes }
      else if (own) {
        if (run) yield run
        run = { from: page, to: page + pageBytes, offset: offset + page - from }
      }
    }
  }
  if (run) yield run
}

/**
 * Tests the upper half of a pagemap entry: bit 63 means present, 62 swapped, 61 file page (kernel's
 * admin-guide/mm/pagemap.rst).
 */
function isOwn(high: number): boolean {
  return high >>> 30 !== 0 && (high & (1 << 29)) === 0
}

async function copyRun(mem: FileHandle, target: FileHandle, { from, to, offset }: Part): Promise<void> {
  const bytes = Buffer.alloc(to - from)
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await mem.read(bytes, done, bytes.length - done, from + done)
    if (bytesRead === 0) throw new Error('the memory of the process cannot be read')
    done += bytesRead
  }
  await target.write(bytes, 0, bytes.length, offset)
}
