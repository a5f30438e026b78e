import { readFileSync } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { extract, pack } from 'tar-stream'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { ArchiveFault } from './fault.ts'
import { endOfArchive, globalHeaderBomb, paxData, rawEntry, rawHeader } from '../../../test/support/lib/archive.ts'
import { type ArchiveLimits, type TarEntry, tarEntries } from './tar.ts'
import { inThread } from './thread.ts'

const limits: ArchiveLimits = { maxBytes: 64 << 20, maxEntries: 1000 }
interface Observed extends Pick<TarEntry, 'name' | 'linkname' | 'type' | 'size'> {
  readonly text: string
}

async function* cut(data: Buffer, chunkBytes: number) {
  for (let at = 0; at < data.length; at += chunkBytes) yield data.subarray(at, at + chunkBytes)
}

async function read(data: Buffer, change: Partial<ArchiveLimits> = {}, chunkBytes = 4096): Promise<Observed[]> {
  const observed: Observed[] = []
  for await (const { name, linkname, type, size, body } of tarEntries(cut(data, chunkBytes), {
    ...limits,
    ...change,
  })) {
    const parts: Buffer[] = []
    for await (const part of body) parts.push(part)
    observed.push({ name, linkname, type, size, text: Buffer.concat(parts).toString('latin1') })
  }
  return observed
}

const of = (...parts: readonly Buffer[]) => Buffer.concat([...parts, endOfArchive])
const pax = (...records: ReadonlyArray<readonly [string, string]>) =>
  rawEntry('pax', { flag: 'x', data: paxData(records) })
const file = rawEntry('file', { data: 'hello' })

describe('a tar archive', () => {
  it('has the full name of a file even if the header cuts the name after a slash', async () => {
    const long = `${'deep/'.repeat(20)}file`
    const longName = rawEntry('././@LongLink', { flag: 'L', data: `${long}\0` })
    const entries = await read(of(longName, rawEntry(long.slice(0, 100), { data: 'hello' })))
    expect(entries).toEqual([{ name: long, linkname: '', type: 'file', size: 5, text: 'hello' }])
  })

  it('has the full names and links of its entries, however the stream is split into chunks', async () => {
    const long = `${'deep/'.repeat(60)}file`
    const data = of(
      rawEntry('././@LongLink', { flag: 'L', data: `${long}\0` }),
      rawEntry('short', { data: 'a'.repeat(700) }),
      pax(['path', 'näme'], ['linkpath', 'tärget'], ['comment', 'x']),
      rawHeader('y', '2', 0),
      rawEntry('dir/', { flag: '5' }),
      rawEntry('git', { flag: 'g', data: paxData([['comment', 'a'.repeat(40)]]) }),
      file,
    )
    const expected = [
      { name: long, linkname: '', type: 'file', size: 700, text: 'a'.repeat(700) },
      { name: 'näme', linkname: 'tärget', type: 'symlink', size: 0, text: '' },
      { name: 'dir/', linkname: '', type: 'directory', size: 0, text: '' },
      { name: 'file', linkname: '', type: 'file', size: 5, text: 'hello' },
    ]
    for (const chunkBytes of [1, 7, 511, 512, 513, 4096, data.length])
      expect(await read(data, {}, chunkBytes)).toEqual(expected)
  })

  it('is read to the end even if the contents of entries are not read', async () => {
    const names: string[] = []
    const data = of(rawEntry('a', { data: 'a'.repeat(5000) }), rawEntry('b', { data: 'b' }), file)
    for await (const { name, body } of tarEntries(cut(data, 100), limits)) {
      names.push(name)
      if (name === 'a') for await (const part of body) if (part.length > 0) break
    }
    expect(names).toEqual(['a', 'b', 'file'])
  })
})

const manyRecords = Array.from({ length: 300 }, (_, n) => [`k${n}`, ''] as const)
const hostile: Readonly<
  Record<string, readonly [data: Buffer, code: ArchiveFault['code'], change?: Partial<ArchiveLimits>]>
> = {
  'a global header of many keys': [globalHeaderBomb(2000, 3), 'refused'],
  'a global header of one key that changes names': [
    of(rawEntry('g', { flag: 'g', data: paxData([['path', 'x']]) }), file),
    'refused',
  ],
  'a header of many records': [of(pax(...manyRecords), file), 'refused'],
  'a header that is too long': [of(rawHeader('x', 'x', 1 << 30), file), 'refused'],
  'a long name that is too long': [of(rawHeader('x', 'L', 1 << 20), file), 'refused'],
  'a name that is too long': [of(pax(['path', 'a'.repeat(5000)]), file), 'refused'],
  'headers without an entry': [of(...Array.from({ length: 50 }, () => pax(['path', 'x']))), 'unreadable'],
  'an extended header without an entry': [of(pax(['path', 'x'])), 'unreadable'],
  'a sparse file (GNU)': [of(rawHeader('x', 'S', 0)), 'refused'],
  'a sparse file (pax)': [of(pax(['GNU.sparse.major', '1'], ['GNU.sparse.realsize', '999999999']), file), 'refused'],
  'a negative size': [
    of(rawHeader('x', '0', 0, { 124: '\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe' })),
    'unreadable',
  ],
  'an endless size': [
    of(rawHeader('x', '0', 0, { 124: '\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff' })),
    'unreadable',
  ],
  'a size of letters': [of(pax(['size', '1e9']), file), 'unreadable'],
  'a directory with content': [of(rawEntry('dir/', { data: 'x' })), 'unreadable'],
  'a wrong checksum': [of(Buffer.from(file).fill('x', 0, 1)), 'unreadable'],
  'data after an empty block': [of(Buffer.alloc(512), file), 'unreadable'],
  noise: [Buffer.alloc(4096, 7), 'unreadable'],
  'half an entry': [file.subarray(0, 600), 'unreadable'],
  'half a header': [file.subarray(0, 100), 'unreadable'],
  'a record that is longer than its header': [
    of(rawEntry('x', { flag: 'x', data: '99 path=x\n' }), file),
    'unreadable',
  ],
  'a record without an end': [of(rawEntry('x', { flag: 'x', data: '9 path=xy' }), file), 'unreadable'],
  'a record of no length': [of(rawEntry('x', { flag: 'x', data: '0 path=x\n' }), file), 'unreadable'],
  'too many entries': [of(file, file, file), 'too_many', { maxEntries: 2 }],
  'a deep name': [of(rawEntry('a/'.repeat(40) + 'x')), 'too_many', { maxEntries: 20 }],
  'global headers without end': [
    of(...Array.from({ length: 30 }, () => rawEntry('g', { flag: 'g', data: paxData([['comment', '']]) }))),
    'too_many',
    { maxEntries: 20 },
  ],
  'too many bytes': [of(rawEntry('x', { data: 'x'.repeat(9000) })), 'too_large', { maxBytes: 8000 }],
  'a declared size above the limit, before its content arrives': [
    of(rawHeader('x', '0', 9000)),
    'too_large',
    { maxBytes: 8000 },
  ],
  'too many bytes behind its end': [of(file, Buffer.alloc(9000)), 'too_large', { maxBytes: 8000 }],
}

describe('a malformed or hostile archive is refused', () => {
  it.each(Object.entries(hostile))('for %s', async (_, [data, code, change]) => {
    await expect(read(data, change)).rejects.toMatchObject({ name: 'ArchiveFault', code })
  })
})

const names = fc.stringMatching(/^[a-zäß][a-z0-9äß]{0,120}(\/[a-z]{1,30}){0,4}$/)
const entries = fc.array(fc.record({ name: names, text: fc.string({ maxLength: 2000 }) }), {
  minLength: 1,
  maxLength: 8,
})
const packed = async (list: ReadonlyArray<{ readonly name: string; readonly text: string }>) => {
  const tar = pack()
  for (const { name, text } of list) tar.entry({ name }, text)
  tar.finalize()
  return buffer(tar)
}

/** Archives that an earlier version misread, crashed on, or took too long to read: gzip in base64, by description. */
const Corpus = Type.Record(Type.String(), Type.String())
const corpus = Object.entries(
  Value.Parse(Corpus, JSON.parse(readFileSync(new URL('./corpus.json', import.meta.url), 'utf8'))),
)

const isFault = (error: unknown) => {
  if (!(error instanceof ArchiveFault)) throw error
}

describe('a random archive', () => {
  it('that a library wrote is read back unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(entries, fc.integer({ min: 1, max: 2000 }), async (list, chunkBytes) => {
        const observed = await read(await packed(list), {}, chunkBytes)
        expect(observed.map(({ name, text }) => ({ name, text: Buffer.from(text, 'latin1').toString() }))).toEqual(list)
      }),
      { numRuns: 60 },
    )
  })

  it('with some changed bytes is refused with an ArchiveFault, or read with the same entries as by another reader', async () => {
    const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(entries, changes, async (list, bytes) => {
        const data = await packed(list)
        for (const [at, byte] of bytes) data.writeUInt8(byte, at % data.length)
        const observed = await read(data).catch(isFault)
        if (observed === undefined) return
        const others: string[] = []
        const tar = extract()
        tar.end(data)
        try {
          for await (const entry of tar) {
            others.push(entry.header.name)
            entry.resume()
          }
        } catch {
          return // The other reader refuses more kinds of input, so it may fail here.
        }
        expect(observed.map(({ name }) => name)).toEqual(others.slice(0, observed.length))
      }),
      { numRuns: 200 },
    )
  })

  it('of random bytes causes no other error than an ArchiveFault', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 3000 }), async noise => {
        await read(Buffer.from(noise)).catch(isFault)
      }),
      { numRuns: 100 },
    )
  })

  it.each(corpus)('that an earlier version of the reader failed on is refused: %s', async (_, packedText) => {
    const data = gunzipSync(Buffer.from(packedText, 'base64'))
    await expect(read(data)).rejects.toMatchObject({ name: 'ArchiveFault' })
  })
})

describe('a worker thread', () => {
  const thread = new URL('../../../test/support/lib/archive-child.ts', import.meta.url)
  const never = new AbortController().signal

  it('returns the result of its job, or its ArchiveFault', async () => {
    expect(await inThread(thread, 'answer', { signal: never, timeoutMs: 30_000 })).toEqual({ answer: 42 })
    const fault = inThread(thread, 'fault', { signal: never, timeoutMs: 30_000 })
    await expect(fault).rejects.toMatchObject({ name: 'ArchiveFault', code: 'refused', message: 'no good' })
    await expect(inThread(thread, 'crash', { signal: never, timeoutMs: 30_000 })).rejects.toThrow('a bug')
    await expect(inThread(thread, 'exit', { signal: never, timeoutMs: 30_000 })).rejects.toThrow()
  })

  it('is terminated during a computation when it is aborted or its time limit ends', async () => {
    const abort = new AbortController()
    const shared = new Int32Array(new SharedArrayBuffer(8))
    const endless = inThread(thread, shared, { signal: abort.signal, timeoutMs: 60_000 })
    await until(async () => Atomics.load(shared, 0) > 0, { what: 'the thread computes', timeoutMs: 30_000 })
    abort.abort(new Error('nobody wants it'))
    await expect(endless).rejects.toThrow('nobody wants it')
    const rounds = Atomics.load(shared, 0)
    const slow = inThread(thread, new Int32Array(new SharedArrayBuffer(8)), { signal: never, timeoutMs: 500 })
    await expect(slow).rejects.toMatchObject({ name: 'ArchiveFault', code: 'too_slow' })
    expect(Atomics.load(shared, 0)).toBe(rounds)
  })

  it('is terminated when it needs too much memory', async () => {
    const greedy = inThread(thread, 'memory', { signal: never, timeoutMs: 60_000 })
    await expect(greedy).rejects.toMatchObject({ name: 'ArchiveFault', code: 'too_large' })
  })
})
