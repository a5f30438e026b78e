import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { createGzip } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { type SourcePart, subjects } from '../../contract/agent.ts'
import { testLog } from '../../../test/support/log.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { fetchUpload, partsOf } from './upload.ts'

let dir: Awaited<ReturnType<typeof testDir>>
beforeAll(async () => {
  dir = await testDir()
})
afterAll(() => dir[Symbol.asyncDispose]())

let files = 0
const place = () => join(dir.path, `sent-${++files}.tar`)
const archive = async (entries: Readonly<Record<string, string>>) => {
  const tar = pack()
  for (const [name, text] of Object.entries(entries)) tar.entry({ name }, text)
  tar.finalize()
  return buffer(tar.pipe(createGzip()))
}
const digestOf = (data: Buffer) => createHash('sha256').update(data).digest('hex')
const inParts =
  (data: Buffer, partBytes: number) =>
  async (offset: number): Promise<SourcePart> => ({
    data: data.subarray(offset, offset + partBytes).toString('base64'),
    sizeBytes: data.length,
  })
const limits = { maxBytes: 1 << 20, signal: AbortSignal.timeout(10_000) }

describe('an uploaded source', () => {
  it('is assembled from its parts, and the files that the build plan depends on can be read', async () => {
    const data = await archive({ 'package.json': '{"name":"shop"}', 'public/index.html': 'x', 'src/deep/a.js': '1' })
    const tree = await fetchUpload(inParts(data, 7), digestOf(data), place(), limits)
    expect((await tree.list()).toSorted()).toEqual(['package.json', 'public/index.html', 'src/deep/a.js'])
    expect(await tree.read('package.json')).toBe('{"name":"shop"}')
    const target = place()
    await tree.archive(target)
    expect((await readFile(target)).includes('src/deep/a.js')).toBe(true)
  })

  it('is read like a repository: large files are not read, except for the first part of a lock file', async () => {
    const large = 'x'.repeat(300_000)
    const data = await archive({ 'yarn.lock': `__metadata:\n${large}`, 'package.json': large })
    const tree = await fetchUpload(inParts(data, 1 << 20), digestOf(data), place(), limits)
    expect(await tree.read('yarn.lock')).toMatch(/^__metadata:\nx{10000}/)
    expect((await tree.read('yarn.lock'))?.length).toBe(65_536)
    expect(await tree.read('package.json')).toBeUndefined()
  })

  it.each([
    ['not the source that was sent', { digest: '0'.repeat(64) }, 'the digest of the received data differs'],
    ['cut off', { cut: 10 }, 'arrived incomplete'],
    ['larger than allowed', { maxBytes: 100 }, 'exceeds the size limit'],
  ])('is refused if it is %s', async (_what, change: { digest?: string; cut?: number; maxBytes?: number }, message) => {
    const data = await archive({ 'index.html': 'hello'.repeat(100) })
    const parts = inParts(data.subarray(0, change.cut ?? data.length), 64)
    const read = async (offset: number) => ({ ...(await parts(offset)), sizeBytes: data.length })
    await expect(
      fetchUpload(read, change.digest ?? digestOf(data), place(), { ...limits, maxBytes: change.maxBytes ?? 1 << 20 }),
    ).rejects.toMatchObject({ name: 'BuildFault', message: expect.stringContaining(message) })
  })

  it('is requested again while the control plane is unavailable, but not if the control plane has deleted it', async () => {
    const bus = createMemoryBus({ log: testLog() })
    const read = partsOf(bus, 'h1', 'b1', AbortSignal.timeout(10_000))
    const waiting = read(3)
    let asked: unknown
    const serving = await bus.serve(subjects.allSources, data => {
      asked = data
      return { data: 'aGk=', sizeBytes: 5 }
    })
    expect(await waiting).toEqual({ data: 'aGk=', sizeBytes: 5 })
    expect(asked).toEqual({ buildId: 'b1', offset: 3 })
    await serving.stop()
    await bus.serve(subjects.allSources, () => {
      throw Object.assign(new Error('Send it again.'), { code: 'not_found' })
    })
    await expect(read(0)).rejects.toMatchObject({ name: 'BuildFault', message: 'Send it again.' })
    await bus.close()
  })
})
