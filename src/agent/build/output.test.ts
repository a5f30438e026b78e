/** Reads the results of builds, which are untrusted input, and stores the built images. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { pack } from 'tar-stream'
import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { globalHeaderBomb } from '../../../test/support/lib/archive.ts'
import { run } from '../../lib/exec.ts'
import { lazily } from '../../lib/once.ts'
import { writeSampleImage } from '../image/sample.ts'
import { context } from '../../../test/support/agent/image.ts'
import { imageStore } from '../image/store.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { testCache } from '../../../test/support/agent/test-cache.ts'
import { builtTag, composeImage } from './compose.ts'
import { keepBuilt, keptImages, pushBuilt } from './retention.ts'
import { outputLimits, readLayer, readLayout } from './output.ts'
import { ensureToolImage } from './tool-images.ts'

const { signal } = new AbortController()
const limits = { ...outputLimits, signal }

type Entry = Parameters<ReturnType<typeof pack>['entry']>[0]
async function disk(dir: string, entries: ReadonlyArray<readonly [Entry, string?]>, end = true): Promise<string> {
  const tar = pack()
  for (const [header, body] of entries) tar.entry(header, body ?? '')
  if (end) tar.entry({ name: 'mote.end' }, '')
  tar.finalize()
  const file = join(dir, 'disk.img')
  await writeFile(file, Buffer.concat([await buffer(tar), Buffer.alloc(1 << 20, 0xa5)]))
  return file
}

describe('a layer', () => {
  test("contains the files below app with the app's user as owner and without times, so that equal trees give equal bytes", async () => {
    await using dir = await testDir()
    const tree = (at: number) =>
      disk(dir.path, [
        [{ name: 'app/', type: 'directory', mode: 0o755, uid: at, mtime: new Date(at) }],
        [{ name: 'app/run', mode: 0o755, uid: at, gid: at, mtime: new Date(at) }, 'program'],
        [{ name: 'app/empty', mtime: new Date(at) }],
        [{ name: 'app/link', type: 'symlink', linkname: '/etc/passwd', mtime: new Date(at) }],
        [{ name: 'app/hard', type: 'link', linkname: 'app/run', mtime: new Date(at) }],
      ])
    await readLayer(await tree(0), join(dir.path, 'a.tar'), limits)
    await readLayer(await tree(86_400_000), join(dir.path, 'b.tar'), limits)
    expect(await readFile(join(dir.path, 'a.tar'))).toEqual(await readFile(join(dir.path, 'b.tar')))
    const listed = await run('tar', ['--numeric-owner', '-tvf', join(dir.path, 'a.tar')])
    expect(listed.split('\n').filter(Boolean)).toHaveLength(5)
    expect(listed).toContain('-rwxr-xr-x 1000/1000')
  })

  test('contains files of Debian packages with root as owner, besides those of the app', async () => {
    await using dir = await testDir()
    const entries = [
      [{ name: 'app/run', mode: 0o755 }, 'program'],
      [{ name: 'usr/bin/tool', mode: 0o755, uid: 1234 }, 'program'],
      [{ name: 'etc/tool.conf', mode: 0o644, gid: 1234 }, 'x'],
      [{ name: 'usr/bin/other', type: 'link', linkname: 'usr/bin/tool' }],
    ] as const
    await readLayer(await disk(dir.path, entries), join(dir.path, 'a.tar'), limits)
    const listed = await run('tar', ['--numeric-owner', '-tvf', join(dir.path, 'a.tar')])
    expect(
      listed
        .split('\n')
        .filter(Boolean)
        .map(line => line.replace(/^\S+ (\S+) .*\d\d:\d\d /, '$1 ')),
    ).toEqual(['1000/1000 app/run', '0/0 usr/bin/tool', '0/0 etc/tool.conf', '0/0 usr/bin/other link to usr/bin/tool'])
  })

  test.each([
    ['an account', [{ name: 'etc/passwd' }, 'root::0:0']],
    ['a group', [{ name: 'etc/group' }, 'root:x:0:']],
    ['a password', [{ name: 'etc/shadow' }, 'root::0:0']],
    ['an old password', [{ name: 'etc/shadow-' }, 'root::0:0']],
    ['a file outside', [{ name: 'var/lib/x' }, 'x']],
    ['a program outside', [{ name: 'bin/sh' }, 'x']],
    ['a directory with a similar name', [{ name: 'usrlocal/x' }, 'x']],
    ['a way out of packages', [{ name: 'usr/../root/x' }, 'x']],
    ['a hard link to an account', [{ name: 'usr/x', type: 'link', linkname: 'etc/passwd' }, undefined]],
    ['a way out', [{ name: 'app/../etc/passwd' }, 'x']],
    ['an absolute path', [{ name: '/app/x' }, 'x']],
    ['a device', [{ name: 'app/sda', type: 'block-device' }, undefined]],
    ['a pipe', [{ name: 'app/pipe', type: 'fifo' }, undefined]],
    ['a hard link outside', [{ name: 'app/x', type: 'link', linkname: '/etc/shadow' }, undefined]],
  ] as ReadonlyArray<readonly [string, readonly [Entry, string?]]>)('with %s is refused', async (_, entry) => {
    await using dir = await testDir()
    await expect(readLayer(await disk(dir.path, [entry]), join(dir.path, 'a.tar'), limits)).rejects.toThrow(
      /the build created/,
    )
  })

  test('that is too large, has no end mark, or is not an archive is refused', async () => {
    await using dir = await testDir()
    const one = [[{ name: 'app/x' }, 'xxxxxxxxxx']] as const
    const target = join(dir.path, 'a.tar')
    await expect(readLayer(await disk(dir.path, one), target, { ...limits, maxBytes: 9 })).rejects.toThrow(
      /exceeds the limit/,
    )
    await expect(readLayer(await disk(dir.path, one), target, { ...limits, maxEntries: 0 })).rejects.toThrow(
      /exceeds the limit/,
    )
    await expect(readLayer(await disk(dir.path, one, false), target, limits)).rejects.toThrow(/no (readable )?result/)
    const noise = join(dir.path, 'noise.img')
    await writeFile(noise, Buffer.alloc(1 << 16, 0x5a))
    await expect(readLayer(noise, target, limits)).rejects.toThrow(/no (readable )?result/)
    await writeFile(noise, Buffer.alloc(1 << 16))
    await expect(readLayer(noise, target, limits)).rejects.toThrow(/no (readable )?result/)
  })
})

test('a layout whose blobs do not match their digests is refused, and other files in it are ignored', async () => {
  await using dir = await testDir()
  const good = '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae' // sha256 of "foo"
  const entries = (body: string) =>
    [
      [{ name: 'image/index.json' }, '{}'],
      [{ name: `image/blobs/sha256/${good}` }, body],
      [{ name: 'image/blobs/sha256/../../evil' }, 'x'],
      [{ name: 'elsewhere' }, 'x'],
    ] as const
  await readLayout(await disk(dir.path, entries('foo')), join(dir.path, 'a'), limits)
  expect(await readdir(join(dir.path, 'a'), { recursive: true })).toEqual(
    expect.arrayContaining(['blobs', 'index.json', `blobs/sha256/${good}`]),
  )
  expect(existsSync(join(dir.path, 'a', 'evil'))).toBe(false)
  await expect(readLayout(await disk(dir.path, entries('bar')), join(dir.path, 'b'), limits)).rejects.toThrow(/damaged/)
})

/** An archive that takes a second to create, so both tests share it. */
const largeBomb = lazily(() => globalHeaderBomb(300_000, 20))

test.each([
  ['layer', readLayer],
  ['layout', readLayout],
] as const)('a %s after a global pax header with many keys is refused at once', async (_, readResult) => {
  await using dir = await testDir()
  const file = join(dir.path, 'disk.img')
  await writeFile(file, largeBomb())
  await expect(readResult(file, join(dir.path, 'result'), limits)).rejects.toThrow(/a header is too long/)
  await writeFile(file, globalHeaderBomb(100, 20))
  await expect(readResult(file, join(dir.path, 'result'), limits)).rejects.toThrow(/global pax header/)
})

const missing = ['docker-registry', 'skopeo', 'umoci'].filter(name => !existsSync(`/usr/bin/${name}`))

describe.skipIf(missing.length > 0)(
  `built images (need ${missing.join(' ') || 'nothing'})`,
  { timeout: 120_000 },
  () => {
    const built = async (dir: string, text: string) => {
      const base = await ensureToolImage({ cacheDir: dir, imageDir: join(dir, 'images') }, 'web', () => undefined)
      const layer = join(dir, `layer-${text}.tar`)
      const entries = [[{ name: 'app/', type: 'directory' }], [{ name: 'app/page.txt' }, text]] as const
      await readLayer(await disk(dir, entries), layer, limits)
      const layout = join(dir, `image-${text}`)
      return { layout, digest: await composeImage(base, layer, { Cmd: ['/bin/sh'] }, layout, new Date(0)) }
    }
    const storeIn = (dir: string, registries: Parameters<typeof imageStore>[0]['registries'] = []) =>
      imageStore({
        cacheDir: testCache(join(dir, 'cache')),
        imageDir: join(dir, 'images'),
        registries,
        maxImageMib: 64,
      })

    test('in a layout are named by digest, and the oldest images are deleted with the blobs that no other image uses', async () => {
      await using dir = await testDir()
      const references: string[] = []
      for (let n = 0; n < keptImages + 2; n++) {
        const { layout, digest } = await built(dir.path, `version-${n}`)
        const reference = await keepBuilt(layout, join(dir.path, 'images'), 'one')
        expect(reference).toBe(`oci:app-one:${digest.replace(':', '-')}`)
        references.push(reference)
      }
      const store = storeIn(dir.path)
      expect((await store.base(references.at(-1) ?? '', context())).config.digest).toMatch(/^sha256:/)
      await expect(store.base(references[1] ?? '', context())).rejects.toMatchObject({ code: 'image_not_found' })
      const blobs = await readdir(join(dir.path, 'images/app-one/blobs/sha256'))
      expect(blobs).toHaveLength(1 + keptImages * 3) // base layer; layer, config and manifest per image
    })

    test('keep their digest when they are pushed to a registry', async () => {
      await using dir = await testDir()
      await using registry = await startRegistry(dir.path)
      const { layout, digest } = await built(dir.path, 'pushed')
      const registries = [{ host: registry.host, plainHttp: true }]
      const reference = await pushBuilt(layout, `${registry.host}/apps/one`, registries, signal)
      expect(reference).toBe(`${registry.host}/apps/one@${digest}`)
      const base = await storeIn(dir.path, registries).base(reference, context())
      expect(base.config).toMatchObject({ digest, argv: { cmd: ['/bin/sh'] } })
    })

    test('of a Dockerfile are stored with all their blobs', async () => {
      await using dir = await testDir()
      const digest = await writeSampleImage(join(dir.path, 'image'), { tag: builtTag })
      const reference = await keepBuilt(join(dir.path, 'image'), join(dir.path, 'images'), 'two')
      expect((await storeIn(dir.path).base(reference, context())).config.digest).toBe(digest)
    })
  },
)

async function startRegistry(dir: string): Promise<{ readonly host: string } & AsyncDisposable> {
  const probe = createServer()
  await new Promise<void>(resolve => probe.listen(0, '127.0.0.1', resolve))
  const address = probe.address()
  const port = typeof address === 'object' && address ? address.port : 0
  await new Promise(resolve => probe.close(resolve))
  const root = join(dir, 'registry')
  await mkdir(root)
  const config = join(dir, 'registry.yml')
  await writeFile(
    config,
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${root}}}\nhttp: {addr: '127.0.0.1:${port}'}\n`,
  )
  const child = spawn('docker-registry', ['serve', config], { stdio: 'ignore' })
  const ended = new Promise(resolve => child.once('exit', resolve))
  await until(async () => (await fetch(`http://127.0.0.1:${port}/v2/`)).ok, {
    what: 'the registry answers',
  })
  return {
    host: `localhost:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
    },
  }
}
