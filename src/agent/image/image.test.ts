import { createHash, randomBytes } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { type Pack, pack } from 'tar-stream'
import { describe, expect, test } from 'vitest'
import { endOfArchive, globalHeaderBomb, paxData, rawEntry, rawHeader } from '../../../test/support/lib/archive.ts'
import { itInAll, runsAll } from '../../../test/support/all-examples.ts'
import { sampleImage } from '../../lib/sample.ts'
import { run } from '../../lib/exec.ts'
import { builtTag } from '../build/compose.ts'
import { keepBuilt } from '../build/retention.ts'
import { showFile } from '../hypervisor/isolation.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { fileSeconds } from './config.ts'
import { parseImage } from './reference.ts'
import { ImageError } from '../base/image-error.ts'
import { sampleLayout, writeSampleImage } from './sample.ts'
import { context } from '../../../test/support/agent/image.ts'
import { imageStore } from './store.ts'
import { testCache } from '../../../test/support/agent/test-cache.ts'

const tools = existsSync('/usr/bin/umoci') && existsSync('/usr/bin/skopeo')

describe('image references', () => {
  const digest = `sha256:${'a'.repeat(64)}`
  test.each([
    ['oci:hello', { kind: 'layout', name: 'hello', tag: 'latest' }],
    ['oci:my-app:v1.2', { kind: 'layout', name: 'my-app', tag: 'v1.2' }],
    [
      'nginx',
      { kind: 'registry', registry: 'docker.io', repository: 'docker.io/library/nginx', tag: 'latest', digest: null },
    ],
    [
      'acme/web:3',
      { kind: 'registry', registry: 'docker.io', repository: 'docker.io/acme/web', tag: '3', digest: null },
    ],
    [
      'ghcr.io/a/b/c',
      { kind: 'registry', registry: 'ghcr.io', repository: 'ghcr.io/a/b/c', tag: 'latest', digest: null },
    ],
    [
      'localhost:5000/x:1',
      { kind: 'registry', registry: 'localhost:5000', repository: 'localhost:5000/x', tag: '1', digest: null },
    ],
    [`r.io/x@${digest}`, { kind: 'registry', registry: 'r.io', repository: 'r.io/x', tag: 'latest', digest }],
  ])('%s is parsed', (text, expected) => expect(parseImage(text)).toEqual(expected))

  test.each([
    'oci:',
    'oci:../etc',
    'oci:a/b',
    'oci:..',
    'oci:a..b',
    'oci:.hidden',
    'oci:a:b:c',
    '',
    ' x',
    'X/Y',
    '--flag',
    'a@sha256:12',
    'a b',
    'docker://x',
    'r.io/../x',
    `a${'b'.repeat(600)}`,
  ])('the image reference "%s" is refused', text => expect(() => parseImage(text)).toThrow(ImageError))
})

/** Writes an OCI layout with one gzip layer. */
async function layout(dir: string, config: object, fill: (tar: Pack) => void, created?: string): Promise<void> {
  const tar = pack()
  fill(tar)
  tar.finalize()
  const put = async (data: Buffer) => {
    const hex = createHash('sha256').update(data).digest('hex')
    await mkdir(join(dir, 'blobs/sha256'), { recursive: true })
    await writeFile(join(dir, 'blobs/sha256', hex), data)
    return { digest: `sha256:${hex}`, size: data.length }
  }
  const raw = await buffer(tar)
  const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', ...(await put(gzipSync(raw))) }
  const diff = `sha256:${createHash('sha256').update(raw).digest('hex')}`
  const json = { os: 'linux', architecture: 'amd64', created, config, rootfs: { type: 'layers', diff_ids: [diff] } }
  const blob = {
    mediaType: 'application/vnd.oci.image.config.v1+json',
    ...(await put(Buffer.from(JSON.stringify(json)))),
  }
  const manifest = { schemaVersion: 2, config: blob, layers: [layer] }
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...(await put(Buffer.from(JSON.stringify(manifest)))),
  }
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(join(dir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
}

/**
 * Writes an OCI layout with these layers and an empty configuration, for images that are refused before they are
 * unpacked.
 */
async function layersOnly(dir: string, blobs: readonly Buffer[]): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true })
  const put = async (data: Buffer) => {
    const hex = createHash('sha256').update(data).digest('hex')
    await writeFile(join(dir, 'blobs/sha256', hex), data)
    return { digest: `sha256:${hex}`, size: data.length }
  }
  const layers = await Promise.all(blobs.map(put))
  const manifest = { schemaVersion: 2, config: await put(Buffer.from('{}')), layers }
  const entry = await put(Buffer.from(JSON.stringify(manifest)))
  await writeFile(join(dir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
}

/** Returns a layer with 1000 files, each of which is 1500 directories deep. */
const deepNames = () =>
  Buffer.concat([
    ...Array.from({ length: 1000 }, (_, n) =>
      rawEntry('x', { flag: 'x', data: paxData([['path', `${n}/${'a/'.repeat(1500)}f`]]) }),
    ).flatMap(header => [header, rawEntry('f')]),
    endOfArchive,
  ])

/**
 * Reads the mode of a file in an EROFS image, because the EROFS tools do not print set-user-ID (`meta_blkaddr` and
 * `i_mode` in erofs_fs.h).
 */
const modeIn = (image: Buffer, nid: number) => image.readUInt16LE(image.readUInt32LE(1024 + 40) * 4096 + nid * 32 + 4)

/** Returns the number of files below this directory that this process has open. */
function openBelow(dir: string): number {
  const targets = readdirSync('/proc/self/fd').map(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return '' // another part of this process closed the file
    }
  })
  return targets.filter(target => target.startsWith(`${dir}/`)).length
}

describe.skipIf(!tools)('bases made from images (need skopeo, umoci)', () => {
  const config = { registries: [], maxImageMib: 64 }
  const storeIn = (path: string, maxImageMib = 64) =>
    imageStore({ ...config, cacheDir: testCache(join(path, 'cache')), imageDir: path, maxImageMib })

  test('the sample image has the same digest every time', async () => {
    await using dir = await testDir()
    const digests = await Promise.all(['a', 'b'].map(name => writeSampleImage(join(dir.path, name))))
    expect(digests[0]).toBe(digests[1])
    expect(await writeSampleImage(join(dir.path, 'c'), { greeting: 'Bye' })).not.toBe(digests[0])
  })

  test('every host creates the sample image itself, and only under the tag latest', async () => {
    await using dir = await testDir()
    const store = storeIn(dir.path)
    const { config: found } = await store.base(sampleImage, context())
    expect(found).toMatchObject({ cwd: '/app', env: { PORT: '8080' } })
    expect(existsSync(join(dir.path, sampleLayout))).toBe(false)
    await expect(store.base(`${sampleImage}:2`, context())).rejects.toMatchObject({ code: 'image_not_found' })
  })

  test('twenty concurrent requests build the base once, and two names of an image share one file', async () => {
    await using dir = await testDir()
    for (const name of ['one', 'two']) await writeSampleImage(join(dir.path, name))
    const bases = await Promise.all(
      Array.from({ length: 20 }, (_, n) => storeIn(dir.path).base(n % 2 ? 'oci:one' : 'oci:two', context())),
    )
    expect(new Set(bases.map(({ file }) => file)).size).toBe(1)
    expect(readdirSync(join(dir.path, 'cache/bases'))).toHaveLength(1)
    expect(bases[0]?.config).toMatchObject({ uid: 1000, gid: 1000, cwd: '/app', env: { HOME: '/app', PORT: '8080' } })
  })

  test('user and groups are resolved in the image, and an unknown user is reported as image_unusable', async () => {
    await using dir = await testDir()
    const files = (tar: Pack) => {
      tar.entry({ name: 'etc', type: 'directory' })
      tar.entry({ name: 'etc/passwd' }, 'root:x:0:0::/root:/bin/sh\napp:x:70:71::/srv:/bin/sh\n')
      tar.entry({ name: 'etc/group' }, 'app:x:71:\nssl:x:72:app,web\nother:x:99:\n')
    }
    const run = async (User: string) => {
      const name = `u${createHash('md5').update(User).digest('hex').slice(0, 8)}`
      await layout(join(dir.path, name), { User, Cmd: ['/x'], StopSignal: 'SIGQUIT' }, files)
      return (await storeIn(dir.path).base(`oci:${name}`, context())).config
    }
    // Only partly in `npm test`, where the first user covers the others: only the look-up in these files differs.
    const users = [
      ['app', { uid: 70, gid: 71, groups: [72], env: { HOME: '/srv' }, stopSignal: 3 }],
      ['app:other', { uid: 70, gid: 99, groups: [] }],
      ['1234', { uid: 1234, gid: 0 }],
      ['', { uid: 0, gid: 0, env: { HOME: '/root' } }],
    ] as const
    for (const [user, expected] of runsAll ? users : users.slice(0, 1)) expect(await run(user)).toMatchObject(expected)
    await expect(run('nobody')).rejects.toMatchObject({ code: 'image_unusable' })
  })

  test.skipIf(!existsSync('/usr/bin/dump.erofs'))(
    'files have the creation time of the image, so that ETags of web servers change with each version',
    async () => {
      await using dir = await testDir()
      const page = (tar: Pack) => void tar.entry({ name: 'page', mtime: new Date(0) }, 'page')
      await layout(join(dir.path, 'dated'), {}, page, '2026-11-25T12:00:00.5Z')
      const { file } = await storeIn(dir.path).base('oci:dated', context())
      expect(await run('dump.erofs', ['--path=/page', file])).toMatch(/2026-11-2[56] /)
    },
  )

  test.each([
    ['2026-11-25T12:00:00.5Z', 1_795_608_000],
    ['0001-01-01T00:00:00Z', 0],
    ['9999-01-01T00:00:00Z', 0],
    ['yesterday', 0],
    [7, 0],
    [undefined, 0],
  ])('an image created at %s gives its files the time %i', (created, seconds) =>
    expect(fileSeconds({ created })).toBe(seconds),
  )

  test.skipIf(process.getuid?.() !== 0 || !existsSync('/usr/bin/dump.erofs'))(
    'files keep their owners and mode bits in the base, and an owner out of range is reported (needs root)',
    async () => {
      await using dir = await testDir()
      const store = storeIn(dir.path)
      await layout(join(dir.path, 'owned'), {}, tar => {
        tar.entry({ name: 'tool', mode: 0o4755, uid: 1000, gid: 70_000 }, 'tool')
        tar.entry({ name: 'null', type: 'character-device', devmajor: 1, devminor: 3 })
      })
      const { file } = await store.base('oci:owned', context())
      const about = await run('dump.erofs', ['--path=/tool', file])
      expect(about).toMatch(/Uid: 1000\s+Gid: 70000\s/)
      expect(modeIn(await readFile(file), Number(/NID: (\d+)/.exec(about)?.[1]))).toBe(0o104755)
      await layout(join(dir.path, 'high'), {}, tar => void tar.entry({ name: 'x', pax: { uid: '2000000000' } }, 'x'))
      await expect(store.base('oci:high', context())).rejects.toMatchObject({
        code: 'image_unusable',
        message: expect.stringContaining('an owner or group above 4194303'),
      })
    },
  )

  test('a layer cannot write outside its root or use a host file as its /etc/passwd', async () => {
    await using dir = await testDir()
    const outside = join(dir.path, 'outside')
    await mkdir(outside)
    await writeFile(join(outside, 'passwd'), 'evil:x:4242:0::/:/bin/sh\n')
    await layout(join(dir.path, 'evil'), { Cmd: ['/x'], User: 'evil' }, tar => {
      tar.entry({ name: '../../../../../../escaped' }, 'x')
      tar.entry({ name: 'link', type: 'symlink', linkname: outside })
      tar.entry({ name: 'link/through-link' }, 'x')
      tar.entry({ name: 'etc', type: 'directory' })
      tar.entry({ name: 'etc/passwd', type: 'symlink', linkname: join(outside, 'passwd') })
    })
    await expect(storeIn(dir.path).base('oci:evil', context())).rejects.toThrow()
    expect(readdirSync(outside)).toEqual(['passwd'])
    expect(existsSync('/escaped')).toBe(false)
    expect(readdirSync(join(dir.path, 'cache/bases'))).toEqual([])
  })

  test('an image that unpacks to more than the limit is refused before anything is unpacked', async () => {
    await using dir = await testDir()
    await layout(
      join(dir.path, 'bomb'),
      { Cmd: ['/x'] },
      tar => void tar.entry({ name: 'zeros' }, Buffer.alloc(3 << 20)),
    )
    await expect(storeIn(dir.path, 2).base('oci:bomb', context())).rejects.toMatchObject({ code: 'image_too_large' })
  })

  // Not in `npm test`: the image of test/stacks, with thousands of files, covers this.
  itInAll('the temporary disk for an image is large enough for many small files and long names', async () => {
    await using dir = await testDir()
    await layout(join(dir.path, 'many'), { Cmd: ['/x'] }, tar => {
      for (let n = 0; n < 6_000; n++)
        tar.entry({ name: `${n % 50}/${'long'.repeat(50)}-${n}`, pax: { 'SCHILY.xattr.user.a': 'x'.repeat(300) } }, 'x')
    })
    const base = await storeIn(dir.path).base('oci:many', context())
    expect(statSync(base.file).size).toBeGreaterThan(6_000 * 200)
    expect(readdirSync(dirname(base.file)).toSorted()).toEqual(['base.img', 'image.json'])
  })

  test.skipIf(process.getuid?.() !== 0)(
    'on a full disk, unpacking fails with host_full and leaves no files behind (needs root)',
    async () => {
      await using dir = await testDir()
      await layout(join(dir.path, 'large'), { Cmd: ['/x'] }, tar => void tar.entry({ name: 'x' }, randomBytes(8 << 20)))
      const cache = join(dir.path, 'cache')
      await mkdir(cache)
      await run('mount', ['-t', 'tmpfs', '-o', 'size=6m', 'none', cache])
      try {
        const built = storeIn(dir.path).base('oci:large', context())
        await expect(built).rejects.toMatchObject({
          code: 'host_full',
          message: 'the host has no room to unpack the image',
        })
        expect(readdirSync(join(cache, 'bases'))).toEqual([])
      } finally {
        await run('umount', [cache])
      }
    },
  )

  const sparse = (version: string) =>
    Buffer.concat([
      rawEntry('x', {
        flag: 'x',
        data: paxData([
          ['GNU.sparse.major', version],
          ['GNU.sparse.minor', '0'],
          ['GNU.sparse.name', 'holes'],
          ['GNU.sparse.size', String(1 << 30)],
          ['GNU.sparse.realsize', String(1 << 30)],
          ['GNU.sparse.numblocks', '1'],
          ['GNU.sparse.map', `${(1 << 30) - 1},1`],
        ]),
      }),
      rawEntry('GNUSparseFile.0/holes', { data: `1\n${(1 << 30) - 1}\n1\n`.padEnd(512, '\0') + 'x' }),
      endOfArchive,
    ])
  const evil: ReadonlyArray<readonly [string, Buffer, string]> = [
    ['a file with holes (pax 1.0)', sparse('1'), 'image_unusable'],
    ['a file with holes (pax 0.1)', sparse('0'), 'image_unusable'],
    ['a file with holes (GNU)', Buffer.concat([rawHeader('holes', 'S', 0), endOfArchive]), 'image_unusable'],
    ['a header that would make many', globalHeaderBomb(100, 20), 'image_unusable'],
    ['noise', randomBytes(5000), 'image_unusable'],
    ['names that are a million directories', deepNames(), 'image_too_large'],
  ]
  // Only partly in `npm test`: files with holes in one format cover the other formats, and one layer that is cut off
  // covers the others, because the same reader refuses all of them.
  const chosen = evil.filter(
    ([what]) => runsAll || !['a file with holes (pax 0.1)', 'a file with holes (GNU)'].includes(what),
  )
  test.each(chosen)('a layer with %s is refused, whether the layer is compressed or not', async (what, layer, code) => {
    await using dir = await testDir()
    for (const [name, blob] of [
      ['plain', layer],
      ['gzip', gzipSync(layer)],
    ] as const) {
      await layersOnly(join(dir.path, name), [blob])
      await expect(storeIn(dir.path).base(`oci:${name}`, context())).rejects.toMatchObject({ code })
    }
    if (!runsAll && what !== 'noise') return
    await layersOnly(join(dir.path, 'cut'), [gzipSync(layer).subarray(0, 60)])
    await expect(storeIn(dir.path).base('oci:cut', context())).rejects.toMatchObject({ name: 'ImageError' })
  })

  test('a passwd file that is a device, a pipe or too long is ignored', async () => {
    await using dir = await testDir()
    const files: Record<string, (tar: Pack) => unknown> = {
      device: tar => tar.entry({ name: 'etc/passwd', type: 'character-device', devmajor: 1, devminor: 5 }),
      pipe: tar => tar.entry({ name: 'etc/passwd', type: 'fifo' }),
      long: tar => tar.entry({ name: 'etc/passwd' }, `${'#'.repeat(1 << 20)}\napp:x:1:1::/:/bin/sh\n`),
    }
    // Only partly in `npm test`, where the pipe covers the others: the same command checks the kind and the size of the
    // file.
    for (const [name, add] of Object.entries(files).filter(([kind]) => runsAll || kind === 'pipe')) {
      await layout(join(dir.path, name), { User: 'app', Cmd: ['/x'] }, add)
      await expect(storeIn(dir.path).base(`oci:${name}`, context())).rejects.toThrow(/runs as user "app"/)
    }
  })

  test('hundreds of KiB of labels in a configuration are accepted, but too much other data is refused', async () => {
    await using dir = await testDir()
    const labels = { metadata: 'x'.repeat(600_000) }
    await layout(join(dir.path, 'labels'), { Cmd: ['/x'], Labels: labels }, tar => void tar.entry({ name: 'x' }, 'x'))
    expect((await storeIn(dir.path).base('oci:labels', context())).config.argv.cmd).toEqual(['/x'])
    const env = Array.from({ length: 20_000 }, (_, n) => `NAME_${n}=x`)
    await layout(join(dir.path, 'long'), { Cmd: ['/x'], Env: env }, tar => void tar.entry({ name: 'y' }, 'y'))
    await expect(storeIn(dir.path).base('oci:long', context())).rejects.toMatchObject({ code: 'image_unusable' })
    const manyTags = JSON.stringify({ schemaVersion: 2, manifests: [], more: 'x'.repeat(1 << 20) })
    await writeFile(join(dir.path, 'long/index.json'), manyTags)
    await expect(storeIn(dir.path).base('oci:long', context())).rejects.toMatchObject({ code: 'image_unusable' })
  })

  const isRoot = process.getuid?.() === 0
  const volumeFiles = (tar: Pack) => {
    const at = 'usr/share/mote/volume'
    tar.entry({ name: `${at}/pgdata`, type: 'directory', mode: 0o2700, uid: 70, gid: 70 })
    tar.entry({ name: `${at}/pgdata/PG_VERSION`, mode: 0o640, uid: 70, gid: 70 }, '15')
    tar.entry({ name: `${at}/root-shell`, mode: 0o6755 }, 'x')
    tar.entry({ name: `${at}/memory`, type: 'character-device', mode: 0o666, devmajor: 1, devminor: 1 })
    tar.entry({ name: `${at}/disk`, type: 'block-device', mode: 0o666, devmajor: 8, devminor: 0 })
    tar.entry({ name: `${at}/pipe`, type: 'fifo' })
    tar.entry({ name: `${at}/link`, type: 'symlink', linkname: '/etc/shadow' })
  }

  test.skipIf(!isRoot)(
    'only a database image gets a seed for volumes, without devices and set-user-ID bits (needs root)',
    async () => {
      await using dir = await testDir()
      for (const name of ['app-1', 'evil', 'postgres']) await layout(join(dir.path, name), { Cmd: ['/x'] }, volumeFiles)
      const store = storeIn(dir.path)
      const seedFor = async (image: string) => (await store.base(image, context())).seed
      for (const image of ['oci:app-1', 'oci:evil']) expect(await seedFor(image)).toBeUndefined()
      expect(
        readdirSync(join(dir.path, 'cache/bases')).flatMap(base => readdirSync(join(dir.path, 'cache/bases', base))),
      ).not.toContain('seed')
      const seed = (await seedFor('oci:postgres')) ?? ''
      expect(await seedFor('oci:evil'), 'the same image under an untrusted name').toBeUndefined()
      expect(readdirSync(seed, { recursive: true }).toSorted()).toEqual([
        'link',
        'pgdata',
        'pgdata/PG_VERSION',
        'root-shell',
      ])
      const modes = ['pgdata', 'pgdata/PG_VERSION', 'root-shell'].map(name => lstatSync(join(seed, name)).mode & 0o7777)
      expect(modes).toEqual([0o700, 0o640, 0o755])
      expect(lstatSync(join(seed, 'pgdata')).uid).toBe(70)
    },
  )

  test.skipIf(!isRoot)(
    'the user of a VM cannot read images and bases on the host, except the base of its own VM (needs root)',
    async () => {
      await using dir = await testDir()
      await chmod(dir.path, 0o755)
      const images = join(dir.path, 'images')
      const bases = join(dir.path, 'cache/bases')
      for (const made of [images, bases]) {
        await mkdir(made, { recursive: true, mode: 0o755 })
        await chmod(made, 0o755) // the mode with which earlier versions created it
      }
      await writeSampleImage(join(dir.path, 'made'), { tag: builtTag })
      const reference = await keepBuilt(join(dir.path, 'made'), images, 'one')
      const { file } = await imageStore({
        ...config,
        cacheDir: testCache(join(dir.path, 'cache')),
        imageDir: images,
      }).base(reference, context())
      const user = { uid: 1_999_999_004, gid: 1_999_999_004 }
      const asUser = ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups']
      const reads = (path: string) =>
        run('setpriv', [...asUser, 'head', '-c', '1', path]).then(
          () => true,
          () => false,
        )
      for (const path of [file, join(images, 'app-one/index.json'), join(file, '../image.json')])
        expect(await reads(path), path).toBe(false)
      const own = join(dir.path, 'base')
      await showFile(file, own, user, 'read')
      expect(await reads(own), 'the base of its own VM').toBe(true)
    },
  )

  test('layers are read two at a time, and an image with more than 256 layers is refused', async () => {
    await using dir = await testDir()
    const sizeMib = 1
    const blobs = Array.from({ length: 24 }, () =>
      gzipSync(Buffer.concat([rawEntry('noise', { data: randomBytes(sizeMib << 20) }), endOfArchive]), { level: 0 }),
    )
    await layersOnly(join(dir.path, 'many'), blobs)
    let most = 0
    const watch = setInterval(() => (most = Math.max(most, openBelow(join(dir.path, 'many')))), 1)
    const base = storeIn(dir.path, 22).base('oci:many', context())
    await expect(base).rejects.toMatchObject({ code: 'image_too_large' })
    clearInterval(watch)
    // A file may remain open for a moment after its end was read, so more than two may be open.
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThan(6)

    const one = gzipSync(Buffer.concat([rawEntry('small', { data: 'x' }), endOfArchive]))
    await layersOnly(join(dir.path, 'too-many'), Array<Buffer>(257).fill(one))
    await expect(storeIn(dir.path, 1024).base('oci:too-many', context())).rejects.toThrow('257 layers, 256 at most')
  })

  test('a blob that does not match its digest is refused', async () => {
    await using dir = await testDir()
    await writeSampleImage(join(dir.path, 'bad'))
    const blobs = join(dir.path, 'bad/blobs/sha256')
    const sizes = await Promise.all(
      readdirSync(blobs).map(async name => ({ name, data: await readFile(join(blobs, name)) })),
    )
    const largest = sizes.sort((a, b) => b.data.length - a.data.length)[0]
    largest?.data.writeUInt8(0x2a, largest.data.length >> 1)
    await writeFile(join(blobs, largest?.name ?? ''), largest?.data ?? '')
    await expect(storeIn(dir.path).base('oci:bad', context())).rejects.toThrow()
  })

  test('a missing layout or tag is reported as image_not_found', async () => {
    await using dir = await testDir()
    await writeSampleImage(join(dir.path, 'here'), { tag: 'v1' })
    await expect(storeIn(dir.path).base('oci:gone', context())).rejects.toMatchObject({ code: 'image_not_found' })
    await expect(storeIn(dir.path).base('oci:here:v2', context())).rejects.toMatchObject({ code: 'image_not_found' })
  })
})
