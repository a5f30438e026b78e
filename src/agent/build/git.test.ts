import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { BuildFault } from './fault.ts'
import { fetchSource, type Source } from './git.ts'
import { type GitServer, gitServer, gitWorker } from '../../../test/support/agent/build.ts'

let server: GitServer
let first = ''
let second = ''
beforeAll(async () => {
  server = await gitServer()
  first = await server.push({ 'index.html': 'one' }, { message: 'The first\n\nwith more' })
  second = await server.push({ 'index.html': 'two', 'public/x.txt': 'x' })
})
afterAll(() => server[Symbol.asyncDispose]())

const limits = { maxBytes: 1 << 26, timeoutMs: 30_000, signal: new AbortController().signal }
const source = (change: Partial<Source> = {}): Source => ({
  url: server.url,
  branch: '',
  commit: '',
  allowPrivate: true,
  ...change,
})
const fetched = async (change: Partial<Source> = {}) => {
  await using dir = await testDir()
  using worker = await gitWorker(dir.path, limits.signal)
  const repository = await fetchSource(source(change), worker, limits)
  const names = await repository.list()
  await repository.archive(join(dir.path, 'source.tar'))
  const tar = await run('tar', ['-tf', join(dir.path, 'source.tar')])
  return { ...repository, names, tar, text: await repository.read('index.html') }
}

describe('a fetch over smart HTTP', () => {
  test('fetches the newest commit of the default branch, or the requested commit', async () => {
    expect(await fetched()).toMatchObject({
      commit: { branch: 'main', hash: second, message: 'change' },
      names: ['index.html', 'public/x.txt'],
      text: 'two',
    })
    const old = await fetched({ branch: 'main', commit: first })
    expect(old).toMatchObject({ commit: { hash: first, message: 'The first\n\nwith more' }, text: 'one' })
    expect(old.tar).toBe('index.html\n')
  })

  test('reads the first part of a lock file, and no other large file', async () => {
    await using large = await gitServer()
    const text = 'x'.repeat(300_000)
    await large.push({ 'pnpm-lock.yaml': `lockfileVersion: '9.0'\n${text}`, 'package.json': text })
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    const repository = await fetchSource(source({ url: large.url }), worker, limits)
    expect((await repository.read('pnpm-lock.yaml'))?.length).toBe(65_536)
    expect(await repository.read('package.json')).toBeUndefined()
  })

  test('only creates the bare repository, without an index or checked-out files', async () => {
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    await fetchSource(source(), worker, limits)
    expect(await readdir(worker.dir)).toEqual(['git', 'trust'])
    expect(await readdir(join(worker.dir, 'git'))).not.toContain('index')
  })

  test.each([
    ['a branch that does not exist', { branch: 'nope' }, /"nope" of the repository does not exist/],
    ['a commit that does not exist', { branch: 'main', commit: 'f'.repeat(40) }, /no commit ffffffffffff/],
    ['a file URL', { url: 'file:///etc' }, /use an https/],
    ['an address that runs a program', { url: 'ext::sh -c id' }, /use an https/],
    ['an option instead of an address', { url: '--upload-pack=id' }, /use an https/],
    ['http without permission', { allowPrivate: false }, /use an https/],
    ['loopback without permission', { url: 'https://localhost/x', allowPrivate: false }, /private address/],
    ['an option as a branch', { branch: '--upload-pack=id' }, /does not exist|cannot be fetched/],
  ] as const)('fails with a message that names the reason: %s', async (_, change, message) => {
    const fault = await fetched(change).catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(BuildFault)
    expect((fault as BuildFault).message).toMatch(message)
  })

  test('fails with a message about the size if the repository is too large', async () => {
    await using large = await gitServer()
    // Random bytes do not compress, so the repository is as large as the file.
    await large.push({ 'index.html': randomBytes(400_000).toString('base64') })
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    const small = { ...limits, maxBytes: 100_000 }
    await expect(fetchSource(source({ url: large.url }), worker, small)).rejects.toThrow(/exceeds the size limit/)
    await using other = await testDir()
    using second = await gitWorker(other.path, limits.signal)
    const fits = await fetchSource(source({ url: large.url }), second, {
      ...limits,
      maxBytes: 500_000,
    })
    await expect(fits.archive(join(dir.path, 'source.tar'))).rejects.toThrow(/exceeds the size limit/)
  })

  test('lists the paths at the top and in public even of a tree with too many paths', async () => {
    await using large = await gitServer()
    const dir = `src/${'x'.repeat(230)}/${'y'.repeat(230)}/${'z'.repeat(230)}`
    const deep = Array.from({ length: 3200 }, (_, n) => [`${dir}/${n}.txt`, ''] as const)
    await large.push({ ...Object.fromEntries(deep), 'go.mod': 'module a', 'public/index.html': 'x' })
    const { names } = await fetched({ url: large.url })
    expect(names.length).toBeLessThan(deep.length)
    expect(names.filter(path => !deep.some(([known]) => known === path))).toEqual(['go.mod', 'public/index.html'])
  })

  test('does not follow a redirect', async () => {
    const { createServer } = await import('node:http')
    const away = createServer((request, response) => {
      response.writeHead(302, { location: server.url + (request.url ?? '').replace('/x.git', '') }).end()
    })
    await new Promise<void>(resolve => away.listen(0, '127.0.0.1', resolve))
    const { port } = away.address() as { port: number }
    await expect(fetched({ url: `http://127.0.0.1:${port}/x.git` })).rejects.toThrow(/moved/)
    await new Promise(resolve => away.close(resolve))
  })

  test('sends the credential to the git host, and writes it to no file', async () => {
    await using guarded = await gitServer({ auth: 'x-access-token:s3cret-token' })
    await guarded.push({ 'index.html': 'private' })
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    await expect(fetched({ url: guarded.url })).rejects.toThrow(/cannot be read/)
    const auth = { username: 'x-access-token', password: 's3cret-token' }
    const wrong = { ...auth, password: 'guessed-token' }
    await expect(fetched({ url: guarded.url, auth: wrong })).rejects.toThrow(/cannot be read/)
    const repository = await fetchSource(source({ url: guarded.url, auth }), worker, limits)
    expect(await repository.read('index.html')).toBe('private')
    const found = await run('grep', ['-rlE', 's3cret-token|eC1hY2Nlc3', dir.path]).catch(() => '')
    expect(found).toBe('')
  })
})
