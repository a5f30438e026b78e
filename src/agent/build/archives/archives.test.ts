import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { testDir } from '../../../../test/support/agent/agent.ts'
import { runsAll } from '../../../../test/support/all-examples.ts'
import { type ArchiveServer, archiveServer } from '../../../../test/support/agent/archive-server.ts'
import { until } from '../../../../test/support/wait.ts'
import { run } from '../../../lib/exec.ts'
import { toolchainDisk, type WantedArchive } from './disk.ts'
import { type Archive, downloadsWith } from './download.ts'
import { archivesIn, archivesUsage, archiveStore } from './store.ts'

const child = fileURLToPath(new URL('../../../../test/support/agent/archive-child.ts', import.meta.url))
const hex = (algorithm: string, bytes: string | Buffer) => createHash(algorithm).update(bytes).digest('hex')
const integrity = (bytes: string) => `sha512-${createHash('sha512').update(bytes).digest('base64')}`

let server: ArchiveServer
let dir: Awaited<ReturnType<typeof testDir>>
let targets = 0
beforeEach(async () => {
  server = await archiveServer()
  dir = await testDir()
})
afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await dir[Symbol.asyncDispose]()
})

const { signal } = new AbortController()
const target = () => join(dir.path, `target-${++targets}`)
const storeOf = (maxMib = 64) => archiveStore(dir.path, maxMib, downloadsWith(''))
const publish = (path: string, content: string | Buffer): Archive => {
  server.files.set(path, content)
  return { url: server.url + path, algorithm: 'sha256', checksum: hex('sha256', content) }
}
const stored = async () => (await readdir(archivesIn(dir.path))).filter(name => name.startsWith('sha'))

describe('the toolchain archive store', () => {
  test('two builds at once share one download, and later builds use the stored archive', async () => {
    const archive = publish('/a', 'content')
    const [store, places] = [storeOf(), [target(), target(), target()]]
    const put = (n: number) => store.put(archive, places[n]!, signal)
    await Promise.all([put(0), put(1)])
    expect(await put(2)).toBe(false)
    expect(server.requests).toEqual(['/a'])
    for (const place of places) expect(await readFile(place, 'utf8')).toBe('content')
  })

  test('an archive whose checksum differs is not stored', async () => {
    const archive = { ...publish('/a', 'forged'), checksum: hex('sha256', 'real') }
    await expect(storeOf().put(archive, target(), signal)).rejects.toThrow(/the checksum of .* is .*, not /)
    expect(await readdir(archivesIn(dir.path))).toEqual([])
  })

  test('an archive whose content has changed on the disk is downloaded again', async () => {
    const archive = publish('/a', 'content')
    await storeOf().put(archive, target(), signal)
    const file = join(archivesIn(dir.path), (await stored())[0]!, 'archive')
    await chmod(file, 0o600)
    await rm(file)
    await writeFile(file, 'half')
    const place = target()
    await storeOf().put(archive, place, signal)
    expect(await readFile(place, 'utf8')).toBe('content')
    expect(server.requests).toHaveLength(2)
  })

  test('after kill -9 in the middle of a download, the archive is downloaded again in full', async () => {
    const archive = publish('/a', Buffer.alloc(1 << 20, 'x'))
    server.stall = true
    const args = [child, dir.path, archive.url, archive.checksum, target()]
    const killed = spawn(process.execPath, args, { stdio: 'inherit' })
    const partial = async () => {
      const names = await readdir(archivesIn(dir.path), { recursive: true }).catch((): string[] => [])
      return names.some(name => name.endsWith('.partial/archive'))
    }
    await until(partial, { what: 'half of the file', timeoutMs: 30_000, everyMs: 10 })
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    expect(await stored()).toEqual([expect.stringMatching(/\.partial$/)])
    server.stall = false
    const place = target()
    expect(await storeOf().put(archive, place, signal)).toBe(true)
    expect(hex('sha256', await readFile(place))).toBe(archive.checksum)
  })

  test('beyond the limit, the least recently used archives are removed, and builds keep their copies', async () => {
    const [a, b, c] = ['/a', '/b', '/c'].map(path => publish(path, Buffer.alloc(1 << 20, path)))
    const place = target()
    await storeOf(2).put(a!, place, signal)
    await storeOf(2).put(b!, target(), signal)
    const age = (archive: Archive, seconds: number) =>
      utimes(join(archivesIn(dir.path), `sha256-${archive.checksum}`), seconds, seconds)
    await age(a!, 1000)
    await age(b!, 2000)
    await storeOf(2).put(a!, target(), signal)
    await storeOf(2).put(c!, target(), signal)
    expect((await stored()).toSorted()).toEqual([a!, c!].map(one => `sha256-${one.checksum}`).toSorted())
    expect(await archivesUsage(dir.path)).toEqual({ count: 2, mib: 2 })
    await storeOf(0).put(b!, target(), signal)
    expect(hex('sha256', await readFile(place))).toBe(a!.checksum)
  })

  test('a canceled build does not abort a download that another build waits for', async () => {
    const archive = publish('/a', 'content')
    const cancelled = new AbortController()
    const store = storeOf()
    const first = store.put(archive, target(), cancelled.signal)
    const second = store.put(archive, target(), signal)
    cancelled.abort(new Error('cancelled'))
    await expect(first).rejects.toThrow('cancelled')
    await second
    expect(server.requests).toEqual(['/a'])
  })
})

describe('the tar file with the toolchain of a build', () => {
  const said: string[] = []
  beforeEach(() => void said.splice(0))
  const disk = async (wanted: readonly WantedArchive[], toolchainMib = 64) => {
    const work = target()
    await mkdir(work)
    const servers = { npm: server.url, rust: server.url }
    const deps = { cacheDir: dir.path, toolchainMib, authorities: '', servers }
    return toolchainDisk(deps, { wanted, work, say: line => void said.push(line) }, signal)
  }
  const filesOn = async (file: string | undefined) =>
    (await run('tar', ['-tf', file ?? '']))
      .split('\n')
      .filter(name => /[^/]$/.test(name))
      .toSorted()
  const packument = (name: string, versions: Record<string, object>, latest: string) => {
    const all = Object.entries(versions).map(([version, more]) => {
      const path = `/${name}/${version}.tgz`
      server.files.set(path, name + version)
      const dist = { tarball: server.url + path, integrity: integrity(name + version) }
      return [version, { dist, ...more }]
    })
    const document = { 'dist-tags': { latest }, versions: Object.fromEntries(all) }
    server.files.set(`/${name.replace('/', '%2f')}`, JSON.stringify(document))
  }
  const npm = (spec: string): WantedArchive => ({ kind: 'npm', name: 'node', spec })

  // Only partly in `npm test`: two ranges cover both choices, which are the newest version that is not deprecated, and
  // the tag "latest".
  const ranges = [
    ['^20', '20.2.0.tgz'],
    ['>=18', '22.1.0.tgz'],
    ['20.x || 21', '20.2.0.tgz'],
    ['23', '23.0.0.tgz'],
    ['latest', '22.1.0.tgz'],
    ['20.3.0', '20.3.0.tgz'],
  ] as const
  test.each(runsAll ? ranges : ranges.slice(0, 2))(
    'contains the package version that npm would choose for the version range %s',
    async (range, file) => {
      const versions = { '18.0.0': {}, '20.2.0': {}, '20.3.0': { deprecated: 'broken' }, '22.1.0': {}, '23.0.0': {} }
      packument('node', versions, '22.1.0')
      expect(await filesOn(await disk([npm(`node@${range}`)]))).toEqual(['./node.0.tgz'])
      expect(said).toEqual([`fetched: ${file}`])
    },
  )

  test('contains the package with the Linux binaries that an npm package refers to', async () => {
    const programs = { '@bun/linux-x64': '1.0.0', '@bun/linux-x64-musl': '1.0.0', '@bun/darwin-x64': '1.0.0' }
    packument('bun', { '1.0.0': { optionalDependencies: programs, dependencies: programs } }, '1.0.0')
    packument('@bun/linux-x64', { '1.0.0': {} }, '1.0.0')
    expect(await filesOn(await disk([npm('bun@1')]))).toEqual(['./node.0.tgz', './node.1.tgz'])
  })

  // The npm command refuses a package for another platform if the package is named on the command line. In npm test,
  // three platforms cover each field: one is included, one is for another CPU, one for another libc.
  const platforms = [
    [{ os: ['!win32'], cpu: 'x64' }, true],
    [{ os: ['linux'], cpu: ['arm64'] }, false],
    [{ os: ['linux'], cpu: ['x64'], libc: 'musl' }, false],
    [{}, true],
    [{ os: ['linux'], cpu: ['x64'] }, true],
    [{ os: ['linux'], cpu: ['x64'], libc: ['glibc'] }, true],
    [{ os: ['android'], cpu: ['x64'] }, false],
    [{ os: ['!linux'] }, false],
  ] as const
  test.each(runsAll ? platforms : platforms.slice(0, 3))(
    'an optional dependency that declares the platform %j is included: %s',
    async (platform, isGiven) => {
      packument('bun', { '1.0.0': { optionalDependencies: { '@bun/linux-x64-a': '1.0.0' } } }, '1.0.0')
      packument('@bun/linux-x64-a', { '1.0.0': platform }, '1.0.0')
      expect(await filesOn(await disk([npm('bun@1')]))).toHaveLength(isGiven ? 2 : 1)
    },
  )

  test.each([
    ['needs other packages', 'tool@1', { dependencies: { other: '1' } }],
    ['has no version in the range', 'tool@2', {}],
    ['is no range', 'tool@http://127.0.0.1/x.tgz', {}],
    ['is elsewhere', 'tool@1', { dist: { tarball: 'http://127.0.0.1:1/x.tgz', integrity: integrity('x') } }],
    ['has no checksum', 'tool@1', { dist: { tarball: 'http://127.0.0.1:1/x.tgz' } }],
  ])('leaves out a package that %s, so that the build downloads it', async (_, spec, more) => {
    packument('tool', { '1.0.0': more }, '1.0.0')
    expect(await disk([npm(spec)])).toBeUndefined()
    expect(server.requests).toEqual(['/tool'])
  })

  test('is created without internet access if the host has all archives in its cache', async () => {
    packument('node', { '20.0.0': {} }, '20.0.0')
    await disk([npm('node@20')])
    server.files.clear()
    expect(await filesOn(await disk([npm('node@20')]))).toEqual(['./node.0.tgz'])
    expect(said).toEqual(['fetched: 20.0.0.tgz', 'from the cache of the host: 20.0.0.tgz'])
  })

  test('is not created if no archive can be fetched, and the log gives the reason', async () => {
    expect(await disk([npm('node@20')])).toBeUndefined()
    expect(said).toEqual(['the host cannot fetch this part of the toolchain: the server answered 404'])
    expect(await disk([npm('node@20')], 0)).toBeUndefined()
    expect(said).toHaveLength(1)
  })

  test('contains a file tree from which rustup installs, with the checksums of the release', async () => {
    const target = 'x86_64-unknown-linux-gnu'
    const parts = ['rustc', 'cargo', 'rust-std'].map(name => {
      const path = `/dist/2025-02-20/${name}-1.85.0-${target}.tar.xz`
      server.files.set(path, name)
      const url = `https://static.rust-lang.org${path}`
      return `[pkg.${name}.target.${target}]\nxz_url = "${url}"\nxz_hash = "${hex('sha256', name)}"\n`
    })
    const manifest = `manifest-version = "2"\n${parts.join('')}`
    server.files.set('/dist/channel-rust-1.85.toml', manifest)
    server.files.set('/dist/channel-rust-1.85.toml.sha256', `${hex('sha256', manifest)}  channel-rust-1.85.toml\n`)
    const file = await disk([{ kind: 'rust', toolchain: '1.85' }])
    expect(await filesOn(file)).toEqual([
      './rust/complete',
      './rust/dist/2025-02-20/cargo-1.85.0-x86_64-unknown-linux-gnu.tar.xz',
      './rust/dist/2025-02-20/rust-std-1.85.0-x86_64-unknown-linux-gnu.tar.xz',
      './rust/dist/2025-02-20/rustc-1.85.0-x86_64-unknown-linux-gnu.tar.xz',
      './rust/dist/channel-rust-1.85.toml',
      './rust/dist/channel-rust-1.85.toml.sha256',
    ])
    server.files.set('/dist/channel-rust-1.84.toml', manifest)
    server.files.set('/dist/channel-rust-1.84.toml.sha256', `${hex('sha256', 'other')}  x\n`)
    expect(await disk([{ kind: 'rust', toolchain: '1.84' }])).toBeUndefined()
    expect(await disk([{ kind: 'rust', toolchain: '../../etc' }])).toBeUndefined()
    expect(server.requests.every(path => path.startsWith('/dist/'))).toBe(true)
  })
})
