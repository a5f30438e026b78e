import { existsSync } from 'node:fs'
import { mkdir, open, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { limitBases, registerAgent } from './base-limit.ts'

const digestOf = (letter: string) => letter.repeat(64)
const nameOf = (letter: string, form = '') => `sha256-${digestOf(letter)}${form}`
const hourMs = 3_600_000

/** Creates a cache with one base of 1 MiB for each letter. The first base was used the longest time ago. */
async function cacheWith(letters: string, form = '') {
  const dir = await testDir()
  const cacheDir = join(dir.path, 'cache')
  for (const [at, letter] of [...letters].entries()) {
    const base = join(cacheDir, 'bases', nameOf(letter, form))
    await mkdir(base, { recursive: true })
    await writeFile(join(base, 'base.img'), Buffer.alloc(1 << 20, 1))
    const used = new Date(Date.now() - (letters.length - at) * 2 * hourMs)
    await utimes(base, used, used)
  }
  return {
    cacheDir,
    path: dir.path,
    left: async () => (await readdir(join(cacheDir, 'bases'))).map(name => name[7]).join(''),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  }
}

/** Creates the data directory of an agent with one file of a VM or snapshot. */
async function agentWith(dataDir: string, file: string, text: string): Promise<string> {
  await mkdir(join(dataDir, 'vms'), { recursive: true })
  await mkdir(join(dataDir, file, '..'), { recursive: true })
  await writeFile(join(dataDir, file), text)
  return dataDir
}

test('the least recently used bases are removed until the size of the remaining ones is within the limit', async () => {
  await using cache = await cacheWith('abcd')
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 4 })).toEqual([])
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 2 })).toEqual([nameOf('a'), nameOf('b')])
  expect(await cache.left()).toBe('cd')
})

test('a base that was used within the last hour is kept, even beyond the limit', async () => {
  await using cache = await cacheWith('ab')
  const now = new Date()
  await utimes(join(cache.cacheDir, 'bases', nameOf('a')), now, now)
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 0 })).toEqual([nameOf('b')])
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 0, idleMs: 0 })).toEqual([nameOf('a')])
})

test('a base that a process has open is kept', async () => {
  await using cache = await cacheWith('ab')
  await using file = await open(join(cache.cacheDir, 'bases', nameOf('a'), 'base.img'))
  expect(file.fd).toBeGreaterThan(0)
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 0 })).toEqual([nameOf('b')])
})

test.each([
  ['the record of a VM', 'vms/vm-1/record.json', { running: { prepared: { imageDigest: `sha256:${digestOf('a')}` } } }],
  ['the record of a stopped VM', 'vms/vm-1/record.json', { imageDigest: `sha256:${digestOf('a')}` }],
  ['the desired state of a VM', 'vms/vm-1/wish.json', { image: `example.com/a@sha256:${digestOf('a')}` }],
  [
    'a snapshot',
    'snapshots/s-1/outcome.json',
    { made: { notes: { base: `/c/bases/${nameOf('a')}-mapped/base.img` } } },
  ],
])(
  "a base that %s of any agent refers to is kept until the agent's data directory is deleted",
  async (_what, file, record) => {
    for (const form of ['', '-mapped', '-seed']) {
      await using cache = await cacheWith('abc', form)
      const one = await agentWith(join(cache.path, 'one'), file, JSON.stringify(record))
      const other = await agentWith(join(cache.path, 'other'), 'vms/vm-2/record.json', '{"imageDigest":null')
      for (const dataDir of [one, other]) await registerAgent(cache.cacheDir, dataDir)
      expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 1 })).toEqual([nameOf('b', form), nameOf('c', form)])
      await rm(one, { recursive: true })
      expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 0 })).toEqual([nameOf('a', form)])
      // The registration of the agent `one` is deleted, because its data directory no longer exists.
      expect((await readdir(join(cache.cacheDir, 'agents'))).length).toBe(1)
      expect(existsSync(join(cache.cacheDir, 'bases', nameOf('a', form)))).toBe(false)
    }
  },
)

test('the volume content of images (seed) counts toward the limit, and a cache without bases is no error', async () => {
  await using cache = await cacheWith('ab')
  const seed = join(cache.cacheDir, 'bases', nameOf('b'), 'seed', 'deep')
  await mkdir(seed, { recursive: true })
  await writeFile(join(seed, 'file'), Buffer.alloc(3 << 20))
  expect(await limitBases({ cacheDir: cache.cacheDir, maxMib: 4 })).toEqual([nameOf('a')])
  expect(await limitBases({ cacheDir: join(cache.path, 'none'), maxMib: 0 })).toEqual([])
})
