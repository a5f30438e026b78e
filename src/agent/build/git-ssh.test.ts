/** Fetches private repositories from a real sshd, with SSH keys like those of apps. */
import { existsSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeKeyPair } from '../../lib/openssh-key.ts'
import { run } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { submoduleUrl } from './address.ts'
import { fetchSource, type Source } from './git.ts'
import { type GitServer, gitServer, gitWorker } from '../../../test/support/agent/build.ts'
import { type SshGitHost, sshGitHost } from '../../../test/support/agent/build-ssh.ts'

const needed = ['sshd', 'ssh', 'ssh-keygen', 'git']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const isRoot = process.getuid?.() === 0
const limits = { maxBytes: 1 << 26, timeoutMs: 30_000, signal: new AbortController().signal }

describe.skipIf(missing.length > 0)(`git over SSH (missing: ${missing.join(' ') || 'nothing'})`, () => {
  const key = makeKeyPair('mote test')
  let host: SshGitHost
  beforeAll(async () => {
    host = await sshGitHost(isRoot ? 22 : undefined)
    await host.allow(key.publicKey)
    await (await host.create('private')).push({ 'index.html': 'over ssh' })
  }, 60_000)
  afterAll(() => host?.[Symbol.asyncDispose]())

  const source = (change: Partial<Source> = {}): Source => ({
    url: host.urlOf('private'),
    branch: '',
    commit: '',
    allowPrivate: true,
    ssh: { privateKey: key.privateKey, knownHosts: host.knownHosts },
    ...change,
  })
  const fetched = async (change: Partial<Source> = {}) => {
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    const repository = await fetchSource(source(change), worker, limits)
    return {
      text: await repository.read('index.html'),
      left: await readdir(worker.dir),
      branch: repository.commit.branch,
    }
  }

  test("a repository is fetched with the app's key, and no key file remains", async () => {
    expect(await fetched()).toEqual({ text: 'over ssh', left: ['git', 'trust'], branch: 'main' })
  })

  test.skipIf(!isRoot)('an address like user@host:path is accepted (port 22 needs root)', async () => {
    expect(await fetched({ url: host.scpOf('private') })).toMatchObject({ text: 'over ssh' })
  })

  test('a host with an unexpected key is refused before anything is sent to it', async () => {
    const other = makeKeyPair('').publicKey.trim()
    const knownHosts = host.knownHosts.replace(/ssh-ed25519 .*/, other)
    await expect(fetched({ ssh: { privateKey: key.privateKey, knownHosts } })).rejects.toThrow(/known_hosts/)
    await expect(fetched({ ssh: { privateKey: key.privateKey, knownHosts: '' } })).rejects.toThrow(/known_hosts/)
  })

  test('a key that the git host rejects fails with advice to add it as a deploy key', async () => {
    const { privateKey } = makeKeyPair('')
    await expect(fetched({ ssh: { privateKey, knownHosts: host.knownHosts } })).rejects.toThrow(/deploy key/)
  })

  test.each([
    ['an option as the user', 'ssh://-oProxyCommand=id@localhost/x'],
    ['an option as the host', 'ssh://-oProxyCommand=id/x'],
    ['an option in the short form', '-oProxyCommand=id@localhost:x'],
    ['the git:// transport', 'git://localhost/x'],
  ])('a repository address with %s is refused', async (_, url) => {
    await expect(fetched({ url })).rejects.toThrow(/use an https/)
  })

  test('a private address is refused without permission, and an SSH address without a key', async () => {
    await expect(fetched({ allowPrivate: false })).rejects.toThrow(/private address/)
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    const { ssh: _, ...bare } = source()
    await expect(fetchSource(bare, worker, limits)).rejects.toThrow(/deploy key/)
    expect(existsSync(join(worker.dir, 'ssh'))).toBe(false)
  })

  test('the generated key is readable by OpenSSH', async () => {
    await using dir = await testDir()
    const file = join(dir.path, 'key')
    await writeFile(file, key.privateKey, { mode: 0o600 })
    expect((await run('ssh-keygen', ['-y', '-f', file])).trim()).toBe(key.publicKey)
  })
})

describe('submodules of a repository', () => {
  let server: GitServer
  beforeAll(async () => {
    server = await gitServer()
  })
  afterAll(() => server[Symbol.asyncDispose]())

  /** Pushes a repository with one submodule. @param url the submodule's address, as in `.gitmodules` */
  const pushed = async (url: string) => {
    const inner = await server.push({ 'lib.txt': 'from the library' }, { branch: 'lib' })
    const gitmodules = `[submodule "the lib"]\n\tpath = vendor/lib\n\turl = ${url}\n`
    await server.push({ 'index.html': 'top', '.gitmodules': gitmodules }, { links: { 'vendor/lib': inner } })
  }
  const listing = async (change: Partial<Source>) => {
    await using dir = await testDir()
    using worker = await gitWorker(dir.path, limits.signal)
    const source = { url: server.url, branch: 'main', commit: '', allowPrivate: true, ...change }
    const repository = await fetchSource(source, worker, limits)
    const file = join(dir.path, 'source.tar')
    await repository.archive(file)
    return (await run('tar', ['-tf', file])).trim().split('\n')
  }

  test('are skipped unless the app enables them', async () => {
    await pushed('./')
    expect(await listing({})).not.toContain('vendor/lib/lib.txt')
    expect(await listing({ submodules: true })).toContain('vendor/lib/lib.txt')
  })

  test('on another host are refused', async () => {
    await pushed('https://elsewhere.example/lib.git')
    await expect(listing({ submodules: true })).rejects.toThrow(/vendor\/lib is on another host/)
    await pushed('file:///etc')
    await expect(listing({ submodules: true })).rejects.toThrow(/another host/)
  })

  test.each([
    ['https://h/team/app.git', '../lib.git', 'https://h/team/lib.git'],
    ['https://h:8443/team/app.git', './sub.git', 'https://h:8443/team/app.git/sub.git'],
    ['https://h/team/app.git', 'git@h:team/lib.git', 'https://h/team/lib.git'],
    ['https://h/a/app.git', '../../../../etc', 'https://h/etc'],
    ['git@h:team/app.git', '../lib.git', 'git@h:team/lib.git'],
    ['git@h:team/app.git', 'https://H/team/lib.git', 'git@h:team/lib.git'],
    ['ssh://git@h:2222/team/app.git', '../lib.git', 'ssh://git@h:2222/team/lib.git'],
    ['https://h/team/app.git', 'https://h.evil/team/lib.git', undefined],
    ['https://h/team/app.git', 'ext::sh -c id', undefined],
    ['https://h/team/app.git', '--upload-pack=id', undefined],
  ])('in the repository %s, the submodule URL %s resolves to %s', (parent, url, wanted) =>
    expect(submoduleUrl(parent, url)).toBe(wanted),
  )
})
