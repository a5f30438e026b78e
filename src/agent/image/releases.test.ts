import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { isPackage, mergeUsr, packageClosure, unpackPackages } from './debian.ts'
import { aptOf, type Release } from './releases.ts'

const needed = ['apt-get', 'dpkg-deb', 'gpg']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, missing: ${missing.join(', ')}` : ''

/** Makes a Debian package with one file, the given dependencies and no scripts. */
async function makePackage(dir: string, name: string, depends: string): Promise<string> {
  const root = join(dir, name)
  await mkdir(join(root, 'DEBIAN'), { recursive: true })
  await mkdir(join(root, 'usr/bin'), { recursive: true })
  await writeFile(join(root, 'usr/bin', name), 'hello\n')
  const control = [`Package: ${name}`, 'Version: 1.0', 'Architecture: all', 'Maintainer: A <a@example.com>']
  if (depends) control.push(`Depends: ${depends}`)
  await writeFile(join(root, 'DEBIAN/control'), `${control.join('\n')}\nDescription: a test\n`)
  const file = join(dir, `repository/${name}.deb`)
  await run('dpkg-deb', ['--root-owner-group', '-b', root, file])
  const data = await readFile(file)
  const sha256 = createHash('sha256').update(data).digest('hex')
  const entry = [...control, `Filename: ./${name}.deb`, `Size: ${data.length}`, `SHA256: ${sha256}`]
  return `${entry.join('\n')}\nDescription: a test\n\n`
}

/** Makes a Debian release like one on a mirror, with a package index that is signed with a key of this test. */
async function makeRelease(dir: string): Promise<Release> {
  const home = join(dir, 'gnupg')
  const gpg = (args: readonly string[]) => run('gpg', ['--homedir', home, '--batch', '--yes', ...args])
  await mkdir(home, { mode: 0o700 })
  await mkdir(join(dir, 'repository'))
  const packages = [await makePackage(dir, 'mote-outer', 'mote-inner'), await makePackage(dir, 'mote-inner', '')].join(
    '',
  )
  await writeFile(join(dir, 'repository/Packages'), packages)
  const hash = createHash('sha256').update(packages).digest('hex')
  const date = new Date().toUTCString().replace('GMT', 'UTC')
  const release = ['Suite: test', 'Codename: test', `Date: ${date}`, 'Architectures: amd64 arm64 all', 'SHA256:']
  await writeFile(join(dir, 'repository/Release'), `${release.join('\n')}\n ${hash} ${packages.length} Packages\n`)
  await gpg(['--passphrase', '', '--quick-gen-key', 'a@example.com', 'ed25519', 'sign'])
  await gpg(['--clearsign', '-o', join(dir, 'repository/InRelease'), join(dir, 'repository/Release')])
  const keyring = join(dir, 'keyring.gpg')
  await gpg(['-o', keyring, '--export'])
  await run('gpgconf', ['--homedir', home, '--kill', 'all'])
  return {
    name: 'Test 1',
    archives: [{ uri: `file:${join(dir, 'repository')}`, suites: './' }],
    components: '',
    keyring,
    keyringPackage: 'test-keyring',
  }
}

describe.skipIf(missing.length > 0)(`packages of another Debian release ${reason}`, () => {
  const stack = new AsyncDisposableStack()
  let dir = ''
  let release: Release
  beforeAll(async () => {
    dir = stack.use(await testDir()).path
    release = await makeRelease(dir)
  })
  afterAll(() => stack.disposeAsync())

  it('are found with their dependencies and unpacked, although the package lists of the host lack them', async () => {
    const apt = await aptOf(release, join(dir, 'apt'))
    expect(await isPackage('mote-outer', apt)).toBe(true)
    expect(await isPackage('mote-outer')).toBe(false)
    const names = await packageClosure({ wanted: ['mote-outer'], unwanted: /^$/ }, apt)
    expect(names).toEqual(['mote-inner', 'mote-outer'])
    const root = join(dir, 'root')
    await mkdir(root)
    const inventory = await unpackPackages(names, root, join(dir, 'scratch'), apt)
    expect(inventory).toEqual(['mote-inner 1.0', 'mote-outer 1.0'])
    await mkdir(join(root, 'bin'))
    await writeFile(join(root, 'bin/sh'), 'of a package with this path')
    await mergeUsr(root)
    expect(await readlink(join(root, 'bin'))).toBe('usr/bin')
    expect((await readdir(join(root, 'usr/bin'))).toSorted()).toEqual(['mote-inner', 'mote-outer', 'sh'])
  })

  it('are refused when they are signed with another key', async () => {
    const other = stack.use(await testDir()).path
    const { keyring } = await makeRelease(other)
    await expect(aptOf({ ...release, keyring }, join(dir, 'forged'))).rejects.toThrow(/NO_PUBKEY|not signed/)
  })
})
