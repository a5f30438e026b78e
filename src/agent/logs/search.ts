/** Searches the log files of many VMs at once, and merges the matching lines by time. */
import type { FileHandle } from 'node:fs/promises'
import { compareKeys, type FoundLine, type LogKey, type LogSearch, type LogSearchAnswer } from '../../contract/agent.ts'
import { answerBytes, toLogLine, type StoredLine } from './line.ts'
import { type Block, blocks, openIfExists } from './segment.ts'

/** A log file to which no more lines are added. */
export interface Segment {
  readonly path: string
  /** Times of the file's first and last lines. */
  readonly firstUs: number
  readonly lastUs: number
}

/** All log files of one VM. */
export interface LogFiles {
  /** Paths of files that may still grow or be renamed, newest first. */
  readonly open: readonly string[]
  readonly closed: readonly Segment[]
}

export type FilesOf = (vmId: string) => Promise<LogFiles>

interface Source {
  readonly vmId: string
  readonly path: string
  /** Undefined until the search reaches the time of the file's first line; then the file is opened. */
  file: FileHandle | undefined
  blocks?: AsyncGenerator<Block>
  /** Matching lines that were read from the file and not returned yet, in the order of the search. */
  lines: StoredLine[]
  /** All lines of the file up to this time, in the order of the search, have been read. */
  readUs: number
}

/** The log files of a search. `waiting` holds those that were not read yet; its last element is the next to read. */
interface Sources {
  readonly active: Source[]
  readonly waiting: Source[]
}

/**
 * Limit on the bytes that one request reads, which takes about 0.1 s. A search for rare text needs several requests.
 */
const mostBytes = 32 * 1024 * 1024

export async function searchLogs(
  search: LogSearch,
  filesOf: FilesOf,
  mostScanned = mostBytes,
): Promise<LogSearchAnswer> {
  await using files = openFiles()
  const lines: FoundLine[] = []
  let scanned = 0
  let bytes = 0
  const sources = await sourcesOf(search, filesOf, files)
  for (;;) {
    const next = first(search, sources)
    if (!next) return { lines, reached: null }
    const at = position(next)
    const found = next.lines.shift()
    if (found) {
      lines.push({ vmId: next.vmId, ...toLogLine(found) })
      bytes += JSON.stringify(found.line).length + 150
      if (lines.length >= search.limit || bytes > answerBytes) return { lines, reached: at }
    } else if (scanned > mostScanned && isBeyond(search, at)) return { lines, reached: at }
    else {
      const block = await nextBlock(search, next, files)
      scanned += block?.bytes ?? 0
      if (block) take(search, next, block)
      else sources.active.splice(sources.active.indexOf(next), 1)
    }
  }
}

/** Opens each file only once, even if the file is renamed between two listings of its directory. */
function openFiles() {
  const opened = new Map<string, FileHandle>()
  return {
    /** Opens the file. Returns undefined if it does not exist or is already open. */
    async open(path: string): Promise<FileHandle | undefined> {
      const file = await openIfExists(path)
      if (!file) return undefined
      const { dev, ino } = await file.stat()
      const id = `${dev}:${ino}`
      if (opened.has(id)) await file.close()
      else opened.set(id, file)
      return opened.get(id) === file ? file : undefined
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all([...opened.values()].map(file => file.close()))),
  }
}

type OpenFiles = ReturnType<typeof openFiles>

async function sourcesOf(search: LogSearch, filesOf: FilesOf, files: OpenFiles): Promise<Sources> {
  const range = rangeOf(search)
  const source = (vmId: string, path: string, firstUs: number, lastUs: number): Source => ({
    vmId,
    path,
    file: undefined,
    lines: [],
    // All lines of the file come after this time in the order of the search.
    readUs: search.order === 'newest' ? Math.min(lastUs + 1, range.beforeUs) : Math.max(firstUs - 1, range.afterUs),
  })
  const waiting: Source[] = []
  for (const vmId of new Set(search.vmIds)) {
    const { open, closed } = await filesOf(vmId)
    let isOpen = false
    for (const path of open) {
      const file = await files.open(path)
      if (file) waiting.push({ ...source(vmId, path, 0, range.beforeUs), file })
      isOpen ||= file !== undefined
    }
    // If the VM was removed after its files were listed, the files are now closed ones: list them again.
    for (const { path, firstUs, lastUs } of isOpen || open.length === 0 ? closed : (await filesOf(vmId)).closed)
      if (lastUs > range.afterUs && firstUs < range.beforeUs) waiting.push(source(vmId, path, firstUs, lastUs))
  }
  return { active: [], waiting: waiting.sort((a, b) => compareKeys(search.order, position(b), position(a))) }
}

/** Returns the requested time range; it starts where the previous page has ended. */
function rangeOf({ order, afterUs, beforeUs, from }: LogSearch) {
  if (!from) return { order, afterUs, beforeUs }
  return order === 'newest'
    ? { order, afterUs, beforeUs: Math.min(beforeUs, from.atUs + 1) }
    : { order, afterUs: Math.max(afterUs, from.atUs - 1), beforeUs }
}

const position = ({ vmId, lines, readUs }: Source): LogKey => ({ vmId, atUs: lines[0]?.atUs ?? readUs })

/** Returns the file that has the next line in the order of the search. */
function first({ order }: LogSearch, { active, waiting }: Sources): Source | undefined {
  let best = waiting.at(-1)
  for (const source of active) if (!best || compareKeys(order, position(source), position(best)) <= 0) best = source
  if (best && best === waiting.at(-1)) active.push(...waiting.splice(-1))
  return best
}

const isBeyond = ({ order, from }: LogSearch, key: LogKey) => !from || compareKeys(order, key, from) > 0

async function nextBlock(search: LogSearch, source: Source, files: OpenFiles): Promise<Block | undefined> {
  if (!source.blocks) {
    source.file ??= await files.open(source.path)
    if (!source.file) return undefined
    source.blocks = blocks(source.file, rangeOf(search))
  }
  const { value } = await source.blocks.next()
  return value ?? undefined
}

function take(search: LogSearch, source: Source, block: Block): void {
  const { vmId } = source
  const isWanted = (line: StoredLine) =>
    search.streams.includes(line.stream) &&
    (search.text === '' || line.line.toLowerCase().includes(search.text)) &&
    isBeyond(search, { vmId, atUs: line.atUs })
  source.lines = block.lines.filter(isWanted)
  source.readUs = block.lines.at(-1)?.atUs ?? source.readUs
}
