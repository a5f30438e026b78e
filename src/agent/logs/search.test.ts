import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { compareKeys, type LogKey, type LogSearch } from '../../contract/agent.ts'
import { formatLine } from './line.ts'
import { openRetainedLogs, type RetainedLogs, excess } from './retained.ts'
import { type FilesOf, searchLogs } from './search.ts'

const all: Omit<LogSearch, 'vmIds'> = {
  order: 'oldest',
  afterUs: 0,
  beforeUs: Number.MAX_SAFE_INTEGER,
  text: '',
  streams: ['stdout', 'stderr', 'system', 'build'],
  limit: 1000,
}
const limits = { maxAgeMs: 1e12, appBytes: 1 << 30, hostBytes: 1 << 30 }
const textOf = (count: number, atUs: (n: number) => number, size = 40) =>
  Array.from({ length: count }, (_, n) =>
    formatLine({ atUs: atUs(n), stream: 'stdout', boot: 1, seq: n, line: `line ${n} ${'x'.repeat(size)}` }),
  ).join('')

const retained = (dir: string, given = limits, now = 1000) => openRetainedLogs(join(dir, 'logs'), given, () => now)
const filesOf =
  (logs: RetainedLogs): FilesOf =>
  async vmId => ({ open: [], closed: logs.segments(vmId) })

async function take(logs: RetainedLogs, dir: string, vmId: string, texts: readonly string[], appId = 'app') {
  const paths = texts.map((_, n) => join(dir, `${vmId}.${n}`))
  for (const [n, text] of texts.entries()) await writeFile(paths[n] ?? '', text)
  await logs.take({ vmId, appId }, paths)
}

/** Searches page by page to the end. Returns time and VM of each line found, and the number of pages. */
async function pages(search: LogSearch, files: FilesOf, mostScanned?: number) {
  const keys: LogKey[] = []
  let from: LogKey | undefined
  let asked = 0
  do {
    const { lines, reached } = await searchLogs(from ? { ...search, from } : search, files, mostScanned)
    keys.push(...lines.map(({ atUs, vmId }) => ({ atUs, vmId })))
    from = reached ?? undefined
    asked++
  } while (from && asked < 10_000)
  return { keys, asked }
}

test.each(['oldest', 'newest'] as const)(
  'paging through the logs of several VMs returns each line once, %s first',
  async order => {
    await using dir = await testDir()
    const logs = await retained(dir.path)
    // Some lines have equal times, VM a has two files, and the lines of VM c begin long after all other lines.
    await take(logs, dir.path, 'a', [textOf(3000, n => 10 + 2 * n), textOf(2000, n => 6010 + 2 * n)])
    await take(logs, dir.path, 'b', [textOf(4000, n => 10 + 3 * n)])
    await take(logs, dir.path, 'c', [textOf(10, n => 90_000 + n)])
    const search = { ...all, order, vmIds: ['a', 'b', 'c', 'none'], limit: 97 }
    const { keys } = await pages(search, filesOf(logs))
    expect(keys).toHaveLength(9010)
    expect(keys).toEqual(keys.toSorted((x, y) => compareKeys(order, x, y)))
    expect(new Set(keys.map(({ atUs, vmId }) => `${atUs} ${vmId}`)).size).toBe(9010)
  },
)

test.each(['oldest', 'newest'] as const)(
  'a search for rare text in large log files is split into several requests, %s lines first',
  async order => {
    await using dir = await testDir()
    const logs = await retained(dir.path)
    await take(logs, dir.path, 'a', [textOf(50_000, n => 10 + 2 * n)])
    await take(logs, dir.path, 'b', [textOf(50_000, n => 11 + 2 * n)])
    const search = { ...all, order, vmIds: ['a', 'b'], text: 'line 31234 ' }
    const { keys, asked } = await pages(search, filesOf(logs), 256 * 1024)
    expect(keys.map(({ vmId }) => vmId).toSorted()).toEqual(['a', 'b'])
    expect(asked).toBeGreaterThan(10)
    expect(asked).toBeLessThan(60)
  },
)

test.each(['oldest', 'newest'] as const)(
  'a search for a time range in the middle of a log file does not read the whole file, %s first',
  async order => {
    await using dir = await testDir()
    const logs = await retained(dir.path)
    await take(logs, dir.path, 'a', [textOf(100_000, n => 10 + n)])
    const span = { ...all, order, afterUs: 40_000, beforeUs: 40_011, vmIds: ['a'] }
    const { lines, reached } = await searchLogs(span, filesOf(logs), 300_000)
    expect(lines.map(({ atUs }) => atUs).toSorted()).toEqual(Array.from({ length: 10 }, (_, n) => 40_001 + n))
    expect(reached).toBeNull()
  },
)

test('a search reads each log file of a running VM once, even if the file is renamed meanwhile', async () => {
  await using dir = await testDir()
  await writeFile(join(dir.path, 'log.new'), `${textOf(5, n => 10 + n)}99 o 1`)
  const open = [join(dir.path, 'log.new'), join(dir.path, 'log.new')]
  const found = await searchLogs({ ...all, vmIds: ['a'] }, async () => ({ open, closed: [] }))
  expect(found.lines).toHaveLength(5)
})

test('a search finds the lines of a VM that is removed while the search lists its files', async () => {
  await using dir = await testDir()
  const logs = await retained(dir.path)
  let looks = 0
  const found = await searchLogs({ ...all, vmIds: ['a'] }, async vmId => {
    const files = { open: [join(dir.path, 'gone')], closed: logs.segments(vmId) }
    if (looks++ === 0) await take(logs, dir.path, 'a', [textOf(5, n => 10 + n)])
    return files
  })
  expect([found.lines.length, looks]).toEqual([5, 2])
})

test('a search response is smaller than a bus message, and the next page continues after the last line of the response', async () => {
  await using dir = await testDir()
  const logs = await retained(dir.path)
  await take(logs, dir.path, 'a', [textOf(200, n => 10 + n, 16_000)])
  const { lines, reached } = await searchLogs({ ...all, vmIds: ['a'] }, filesOf(logs))
  expect(JSON.stringify(lines).length).toBeLessThan(700_000)
  expect(reached?.atUs).toBe(lines.at(-1)?.atUs)
  const { keys } = await pages({ ...all, vmIds: ['a'] }, filesOf(logs))
  expect(keys).toHaveLength(200)
})

test('a search filters log lines by stream and by text, ignoring case', async () => {
  await using dir = await testDir()
  const logs = await retained(dir.path)
  const text = [
    formatLine({ atUs: 1, stream: 'stdout', boot: 1, seq: 1, line: 'Timeout of ÄPP' }),
    formatLine({ atUs: 2, stream: 'system', boot: 0, seq: 0, line: 'timeout' }),
    formatLine({ atUs: 3, stream: 'stderr', boot: 1, seq: 2, line: 'fine' }),
  ].join('')
  await take(logs, dir.path, 'a', [text])
  const times = async (search: Partial<LogSearch>) =>
    (await searchLogs({ ...all, vmIds: ['a'], ...search }, filesOf(logs))).lines.map(({ atUs }) => atUs)
  expect(await times({ text: 'timeout' })).toEqual([1, 2])
  expect(await times({ text: 'äpp' })).toEqual([1])
  expect(await times({ text: '.*' })).toEqual([])
  expect(await times({ streams: ['system'] })).toEqual([2])
})

test('retained logs survive a restart, and are deleted with their app', async () => {
  await using dir = await testDir()
  const logs = await retained(dir.path)
  await take(logs, dir.path, 'a', [textOf(5, n => 10 + n), textOf(5, n => 20 + n)])
  await take(logs, dir.path, 'b', [textOf(5, n => 10 + n)], 'other')
  await take(logs, dir.path, 'empty', [''])
  const again = await retained(dir.path)
  expect([again.segments('a').length, again.segments('b').length, again.segments('empty').length]).toEqual([2, 1, 0])
  await again.forget(['app', 'unknown'])
  const third = await retained(dir.path)
  expect([third.segments('a').length, third.segments('b').length]).toEqual([0, 1])
})

test('the oldest retained logs are deleted when they exceed the maximum age, or the disk space for their app or host', async () => {
  const piece = (appId: string, lastUs: number, bytes = 10_000) => ({ appId, lastUs, bytes })
  const pieces = [piece('a', 1e6), piece('b', 2e6), piece('a', 3e6), piece('a', 4e6, 1)]
  const gone = (given: Partial<typeof limits>) =>
    excess(pieces, { ...limits, ...given }, 5_000).map(({ lastUs }) => lastUs / 1e6)
  expect(gone({})).toEqual([])
  expect(gone({ maxAgeMs: 2_500 })).toEqual([2, 1])
  // A file smaller than one block counts as one block.
  expect(gone({ appBytes: 14_096 })).toEqual([1])
  expect(gone({ appBytes: 14_095 })).toEqual([3, 1])
  expect(gone({ hostBytes: 24_100 })).toEqual([1])
  await using dir = await testDir()
  await mkdir(join(dir.path, 'logs'))
  const logs = await retained(dir.path, { ...limits, appBytes: 15_000 })
  for (const [n, vmId] of ['a', 'b', 'c'].entries())
    await take(logs, dir.path, vmId, [textOf(100, i => n * 1000 + i + 1)])
  expect(['a', 'b', 'c'].map(vmId => logs.segments(vmId).length)).toEqual([0, 1, 1])
})
