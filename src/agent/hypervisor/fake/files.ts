/** File tools of a simulated guest, on files in memory. Error messages are the same as those of guest/files.c. */
import { randomBytes } from 'node:crypto'
import { posix } from 'node:path'
import { decodeWord, encodeBytes } from '../../../lib/words.ts'
import type { SessionStart } from '../../guest/session-words.ts'
import { type ChangeTaker, fakeWatches } from './watches.ts'

interface FakeFile {
  /** Content of a file; undefined for a directory. */
  content: Buffer | undefined
  mode: string
  changedAt: number
  version: string
}

export interface ToolResult {
  readonly stdout: Buffer
  readonly stderr: string
  readonly code: number
}

export interface FakeFiles {
  /** Runs a file tool until it exits. */
  run(start: SessionStart, input: Buffer): ToolResult
  /**
   * Runs the tool `watch` (guest/watch.c), which does not exit by itself.
   * @returns a function that stops it, or the result of a watch that cannot start
   */
  watch(start: SessionStart, take: ChangeTaker): ToolResult | (() => void)
}

const result = (stdout: string | Buffer = ''): ToolResult => ({ stdout: Buffer.from(stdout), stderr: '', code: 0 })
class Fault extends Error {}
const fault = (path: string, reason: string) => new Fault(`${Buffer.from(path, 'latin1')}: ${reason}\n`)

const size = 1 << 30

/** Creates a file system in memory. A path is a Latin-1 string, one character per byte, because it may not be UTF-8. */
export function fakeFiles(): FakeFiles {
  const files = new Map<string, FakeFile>()
  const watches = fakeWatches()
  const put = (path: string, content: Buffer | undefined, mode = content ? '644' : '755') =>
    files.set(path, {
      content,
      mode: files.get(path)?.mode ?? mode,
      changedAt: Date.now(),
      version: randomBytes(6).toString('hex'),
    })
  const makeParents = (path: string): void => {
    const parent = posix.dirname(path)
    const known = files.get(parent)
    if (known?.content) throw fault(path, 'Not a directory')
    if (known) return
    makeParents(parent)
    put(parent, undefined)
    watches.report('created', parent)
  }
  put('/', undefined)
  for (const [path, text] of seeds) {
    makeParents(path)
    put(path, Buffer.from(text))
  }
  const find = (path: string) => {
    const file = files.get(plain(path))
    if (!file) throw fault(path, 'No such file or directory')
    if (file.content && path.endsWith('/')) throw fault(path, 'Not a directory')
    return file
  }
  const below = (path: string) => [...files.keys()].filter(one => one.startsWith(path === '/' ? '/' : `${path}/`))
  const tools: Readonly<Record<string, (args: readonly string[], input: Buffer) => ToolResult>> = {
    list: ([path = '', depth = '0']) => {
      find(path)
      const from = plain(path)
      const levels = (one: string) => posix.relative(from, one).split('/').length
      const shown = below(from).filter(one => one !== from && levels(one) <= Number(depth))
      return result([path, ...shown].map(one => lineOf(one, find(one))).join(''))
    },
    get: ([path = '', first = '', last = '', version = '']) => getPart(path, find(path), first, last, version),
    write: ([path = '', mode], input) => {
      if (files.get(path) && !files.get(path)?.content) throw fault(path, 'Is a directory')
      makeParents(path)
      put(path, input, mode)
      watches.reportReplaced(path)
      return result()
    },
    mkdir: ([path = '']) => {
      if (files.get(path)?.content) throw fault(path, 'Not a directory')
      makeParents(`${plain(path)}/x`)
      return result()
    },
    move: ([path = '', to = '', refuse]) => {
      find(path)
      if (refuse === '1' && files.has(to)) throw fault(to, 'File exists')
      if (!files.has(posix.dirname(to))) throw fault(path, 'No such file or directory')
      for (const one of [path, ...below(path)]) {
        const file = find(one)
        files.delete(one)
        files.set(to + one.slice(path.length), file)
      }
      watches.report('moved', path, to)
      return result()
    },
    remove: ([path = '', all]) => {
      find(path)
      if (all !== '1' && below(path).length > 0) throw fault(path, 'Directory not empty')
      for (const one of [...below(path).reverse(), path]) {
        files.delete(one)
        watches.report('removed', one)
      }
      return result()
    },
    processes: () => result('1 0 0 S 20 1024 init\n2 1 1000 S 150 20480 web%20--port%208080\n'),
    space: ([path = '']) => {
      find(path)
      const used = [...files.values()].reduce((sum, { content }) => sum + (content?.length ?? 0), 0)
      return result(`${size} ${size - used} ${size - used}\n`)
    },
  }
  return {
    run: (start, input) => {
      const [name = '', ...args] = argumentsOf(start)
      return orFault(() => tools[name]?.(args, input) ?? noTool)
    },
    watch: (start, take) =>
      orFault(() => {
        const [, path = '', recursive] = argumentsOf(start)
        find(path)
        const isRecursive = recursive === '1'
        const directories = below(plain(path)).filter(one => one !== plain(path) && !files.get(one)?.content)
        take(`watching ${isRecursive ? directories.length + 1 : 1}\n`)
        return watches.add({ path: plain(path), isRecursive, take })
      }),
  }
}

const noTool: ToolResult = { stdout: Buffer.alloc(0), stderr: 'no such file tool\n', code: 2 }

const bytesOf = (text: string, isEncoded = false) =>
  (isEncoded ? decodeWord(text) : Buffer.from(text)).toString('latin1')
const argumentsOf = ({ command = [], encodedArguments }: SessionStart) =>
  command.map((word, n) => (n === 0 ? word : bytesOf(word, encodedArguments)))

function orFault<T>(act: () => T): T | ToolResult {
  try {
    return act()
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause
    return { stdout: Buffer.alloc(0), stderr: cause.message, code: 1 }
  }
}

const seeds = [
  ['/app/index.html', '<!doctype html>\n<title>A simulated VM</title>\n'],
  ['/etc/hostname', 'vm\n'],
  ['/var/log/app.log', 'started\n'],
  ['/tmp/notes.txt', 'Files of a simulated VM are in memory.\n'],
] as const

const plain = (path: string) => (path.length > 1 ? path.replace(/\/$/, '') : path)

function lineOf(path: string, { content, mode, changedAt }: FakeFile): string {
  const name = encodeBytes(Buffer.from(path, 'latin1'))
  return `${content ? 'f' : 'd'} ${mode} ${content?.length ?? 4096} ${Math.floor(changedAt / 1000)} ${name} \n`
}

function getPart(path: string, file: FakeFile, first: string, last: string, version: string): ToolResult {
  const { content } = file
  if (!content) throw fault(path, 'Is a directory')
  const isWhole = first === '' || (version !== '' && version !== file.version)
  const from = isWhole ? 0 : Number(first) < 0 ? Math.max(0, content.length + Number(first)) : Number(first)
  const end = isWhole || last === '' ? content.length : Math.min(content.length, Number(last) + 1)
  if (!isWhole && from >= end) return result(`${content.length} ${file.version} -1 0\n`)
  const head = `${content.length || -1} ${file.version} ${from} ${end - from}\n`
  return result(Buffer.concat([Buffer.from(head), content.subarray(from, end)]))
}
