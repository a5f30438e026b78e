// Not repeated on the distribution's PostgreSQL: this file tests builds in real VMs, not the database.
/**
 * Uploading a local folder as an app's source: from the archive to a served page, and archives that must be rejected.
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { createGzip, gzipSync } from 'node:zlib'
import { type Header, pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { hasToolImage, toolImages } from '../../src/agent/build/tool-images.ts'
import { subjects } from '../../src/contract/agent.ts'
import { createClient } from '../../src/client/index.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { globalHeaderBomb } from '../support/lib/archive.ts'
import { viaGateway } from '../support/http.ts'
import { cli } from '../support/cli.ts'
import { runsAll } from '../support/all-examples.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'

let system: TestSystem
let user: TestUser
let home = ''
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  home = await mkdtemp(join(tmpdir(), 'mote-source-test-'))
  await user.post('/v1/apps', { name: 'shop', git_url: '' })
})
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

type Entry = Partial<Header> & { readonly name: string; readonly text?: string }
const archive = (entries: readonly Entry[]) => {
  const tar = pack()
  for (const { text = '', ...header } of entries) tar.entry(header, text)
  tar.finalize()
  return buffer(tar.pipe(createGzip()))
}
/** Returns a compressed archive entry with `mib` MiB of zeros. The MiB is compressed once, and repeated as a gzip member. */
async function zeros(name: string, mib: number): Promise<Buffer> {
  const tar = pack()
  tar.entry({ name, size: mib << 20 })
  const [header] = await once(tar, 'data')
  tar.destroy()
  const mebibyte = gzipSync(Buffer.alloc(1 << 20))
  return Buffer.concat([gzipSync(header), ...Array<Buffer>(mib).fill(mebibyte)])
}
interface Answer {
  readonly source: string
  readonly error: string
  readonly details: unknown
}
const send = async (body: NonNullable<RequestInit['body']>, { app = 'shop', token = user.token ?? '' } = {}) => {
  const response = await fetch(`${system.control.url}/v1/apps/${app}/source`, {
    method: 'PUT',
    body,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/gzip' },
  })
  return { status: response.status, body: (await response.json()) as Answer }
}
const page: Entry = { name: 'index.html', text: 'hello' }

describe('an uploaded source', () => {
  it('is identified by a digest of its files, however they were packed', async () => {
    const first = await send(await archive([page, { name: 'a/b.txt', text: 'deep' }]))
    expect(first).toMatchObject({ status: 200, body: { source: /^sha256:[0-9a-f]{64}$/, files: 2 } })
    const owned = { uid: 1000, uname: 'me', mtime: new Date(), mode: 0o640 }
    const again = await send(
      await archive([
        { ...page, ...owned, name: './index.html' },
        { name: './a//b.txt', text: 'deep' },
      ]),
    )
    expect(again.body).toEqual(first.body)
  })

  const outside: readonly (readonly [string, readonly Entry[], string])[] = [
    ['a name that climbs', [{ name: '../evil', text: 'x' }], 'not a valid path below the root'],
    ['a name that climbs later', [{ name: 'a/../../evil', text: 'x' }], 'not a valid path below the root'],
    ['an absolute name', [{ name: '/etc/passwd', text: 'x' }], 'not a valid path below the root'],
    ['a link to elsewhere', [{ name: 'l', type: 'symlink', linkname: '/etc/shadow' }], 'leads out'],
    ['a link that climbs', [{ name: 'a/l', type: 'symlink', linkname: '../../x' }], 'leads out'],
    ['a link that climbs behind a link', [{ name: 'a/l', type: 'symlink', linkname: 'x/../../..' }], 'leads out'],
    [
      'a file through a link',
      [
        { name: 'l', type: 'symlink', linkname: 'a' },
        { name: 'l/x', text: 'x' },
      ],
      'not a directory',
    ],
    ['a hard link to elsewhere', [{ name: 'l', type: 'link', linkname: '/etc/shadow' }], 'not a valid path below'],
    ['a hard link to nothing', [{ name: 'l', type: 'link', linkname: 'x' }], 'not an earlier file'],
    ['a device', [{ name: 'sda', type: 'block-device', devmajor: 8 }], 'only files, directories and links'],
    ['a pipe', [{ name: 'p', type: 'fifo' }], 'only files, directories and links'],
    ['a file twice', [page, page], 'occurs twice'],
    ['nothing', [{ name: 'empty', type: 'directory' }], 'contains no file'],
  ]
  it.each(outside)('with %s is rejected', async (_what, entries, message) => {
    const { status, body } = await send(await archive(entries))
    expect([status, body.error]).toEqual([400, expect.stringContaining(message)])
    expect(body.details).toEqual([{ field: 'body', message: expect.stringContaining(message) }])
  })

  it('with a global header of many keys is rejected at once without blocking the API', async () => {
    const sent = send(gzipSync(globalHeaderBomb(300_000, 2000)))
    expect((await user.get('/v1/apps')).status).toBe(200)
    const { status, body } = await sent
    expect([status, body.error]).toEqual([400, expect.stringContaining('a header is too long')])
  })

  it('with links to its own files is accepted', async () => {
    const { status } = await send(
      await archive([
        ...[{ name: 'a/x', text: 'x' }, { name: 'a/up', type: 'symlink', linkname: '../b/y' } as const],
        ...[{ name: 'b/y', text: 'y' }, { name: 'b/hard', type: 'link', linkname: 'a/x' } as const],
      ]),
    )
    expect(status).toBe(200)
  })

  it.each([
    ['no archive', () => 'hello', 'not a complete tar.gz'],
    [
      'half an archive',
      async () => (await archive([{ name: 'x', text: 'x'.repeat(9999) }])).subarray(0, 60),
      'not a complete tar.gz',
    ],
    ['an archive of noise', () => gzipSync(Buffer.alloc(4096, 7)), 'not a complete tar.gz'],
  ])('that is %s is rejected', async (_what, made: () => string | Buffer | Promise<Buffer>, message) => {
    const { status, body } = await send(await made())
    expect([status, body.error]).toEqual([400, expect.stringContaining(message)])
  })

  it('is rejected if it is too large, by its Content-Length, while it is received, or unpacked', async () => {
    expect((await send(Buffer.alloc((64 << 20) + 1))).status).toBe(413)
    const block = new Uint8Array(crypto.getRandomValues(new Uint8Array(1 << 16)))
    let sent = 0
    const endless = new ReadableStream({
      pull(stream) {
        sent += block.length
        if (sent > 70 << 20) stream.close()
        else stream.enqueue(block)
      },
    })
    const asItComes = await fetch(`${system.control.url}/v1/apps/shop/source`, {
      method: 'PUT',
      body: endless,
      duplex: 'half',
      headers: { authorization: `Bearer ${user.token}` },
    } as RequestInit)
    expect([400, 413]).toContain(asItComes.status)
    const bomb = Buffer.concat(await Promise.all(['a', 'b'].map(name => zeros(name, 257))))
    expect(bomb.length).toBeLessThan(1 << 20)
    expect((await send(bomb)).status).toBe(413)
  })

  it('can only be uploaded by the tenant of the app, and only be deployed to this app', async () => {
    const { body } = await send(await archive([page]))
    const other = await system.user()
    expect((await send(await archive([page]), { token: other.token ?? '' })).status).toBe(404)
    await user.post('/v1/apps', { name: 'other', git_url: '' })
    const deploy = (app: string, source: string, more = {}) => user.post(`/v1/apps/${app}/deploy`, { source, ...more })
    expect(await deploy('other', body.source)).toMatchObject({ status: 409, body: { code: 'invalid_state' } })
    expect(await deploy('shop', 'sha256:../../x')).toMatchObject({ status: 400 })
    expect(await deploy('shop', body.source, { image: 'a' })).toMatchObject({ status: 400 })
  })

  it('is deleted after newer uploads to its app', async () => {
    const sent: string[] = []
    for (const text of ['1', '2', '3', '4', '5'])
      sent.push((await send(await archive([{ ...page, text }]))).body.source)
    const answer = (source: string) => user.post('/v1/apps/shop/deploy', { source, dry_run: true })
    expect((await answer(sent[0] ?? '')).body.code).toBe('invalid_state')
    expect((await answer(sent[4] ?? '')).body.code).not.toBe('invalid_state')
  })

  it('can only be read by the host that builds it', async () => {
    const subject = subjects.source('0190f3a0-0000-7000-8000-000000000000')
    const asked = system.bus.request(
      subject,
      { buildId: '0190f3a0-0000-7000-8000-000000000001', offset: 0 },
      { timeoutMs: 5000 },
    )
    await expect(asked).rejects.toMatchObject({ remoteCode: 'not_found' })
  })
})

const [gvisor] = (await driverCases()).filter(({ spec, skip }) => spec.hypervisor === 'gvisor' && !skip)
/** Whether builds run in emulated guests: in `npm run test:all`, or without gVisor. builds.test.ts and crash.test.ts always do. */
const isEmulated = runsAll || gvisor === undefined
const guests = isEmulated ? { hypervisor: 'qemu' as const, network: 'user' as const } : gvisor.config
const needed = [...(isEmulated ? ['qemu-system-x86_64'] : []), 'umoci', 'mke2fs']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const { cacheDir } = agentConfig({ dataDir: '/nonexistent', hostName: 'test' })
const unmade = toolImages.filter(name => !hasToolImage(cacheDir, name))
const note = [
  ...(missing.length > 0 ? [`(skipped, not installed: ${missing.join(', ')})`] : []),
  ...(unmade.length > 0 ? [`(skipped, no images ${unmade.join(', ')}: mote image build builder)`] : []),
].join(' ')

describe.skipIf(note !== '')(`a folder without a repository ${note}`, { timeout: 400_000 }, () => {
  beforeAll(async () => {
    const agent = await system.addAgent({ ...guests, cacheDir })
    await agent.probed
  }, 60_000)

  const answer = async (host: string) => {
    const { status, body } = await viaGateway(system.gateway.port, host)
    return `${status} ${body}`
  }

  it('with a Node app is launched by the CLI and served, without ignored files', async () => {
    const folder = join(home, 'my-shop')
    await mkdir(folder)
    const program = `const { existsSync } = require('node:fs')
      require('node:http').createServer((q, r) => r.end('shop ' + existsSync('notes.txt') + existsSync('.env'))).listen(process.env.PORT)`
    const files = {
      'server.js': program,
      'package.json': JSON.stringify({ name: 'my-shop', scripts: { start: 'node server.js' } }),
      '.gitignore': 'notes.txt\n',
      'notes.txt': 'private',
      '.env': 'KEY=1',
    }
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
    const mote = cli({ home, env: { MOTE_URL: system.control.url, MOTE_TOKEN: user.token ?? '' } })
    const launched = await mote.run(['launch', '--upload', '--name', 'my-shop', '--port', '3000'], { cwd: folder })
    expect(launched, launched.err).toMatchObject({ code: 0, out: expect.stringContaining('my-shop serves at') })
    expect(launched.err).toContain('found a Node project')
    const { hostname } = (await user.get('/v1/apps/my-shop')).body
    expect(await answer(hostname)).toBe('200 shop falsefalse')
  })

  it('is deployed with the npm client, and then replaced by the next one', async () => {
    const client = createClient({ baseUrl: system.control.url, token: () => user.token })
    await client.createApp({ body: { name: 'site', git_url: '' } })
    const hostname = (await client.getApp({ app_name: 'site' })).hostname ?? ''
    for (const text of ['the first page', 'the second page']) {
      const { source } = await client.putAppSource({
        app_name: 'site',
        body: new Blob([new Uint8Array(await archive([{ ...page, text }]))]),
      })
      const { job_id } = await client.deployApp({ app_name: 'site', body: { source } })
      for await (const { data } of client.streamDeployments({ app_name: 'site' })) {
        void data
        const { status } = await client.getDeployment({ app_name: 'site', job_id })
        if (status === 'running') break
        expect(status).not.toBe('failed')
      }
      await expect.poll(() => answer(hostname), { timeout: 30_000 }).toBe(`200 ${text}`)
    }
  })
})
