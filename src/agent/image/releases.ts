/**
 * Releases of Debian and Ubuntu as package sources that are independent of the host's own release. Each release has its
 * own apt configuration.
 */
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { type Apt, unpackPackages } from './debian.ts'

export interface Release {
  readonly name: string
  /** The archives that contain the release: `URIs` and `Suites` of sources.list(5). */
  readonly archives: readonly { readonly uri: string; readonly suites: string }[]
  readonly components: string
  /**
   * Name of the keyring file in the package `keyringPackage`, which is installed on the host or comes from Debian
   * trixie.
   */
  readonly keyring: string
  readonly keyringPackage: string
}

const debian = (name: string): Release => ({
  name: `Debian ${name}`,
  archives: [
    { uri: 'http://deb.debian.org/debian', suites: `${name} ${name}-updates` },
    { uri: 'http://deb.debian.org/debian-security', suites: `${name}-security` },
  ],
  components: 'main',
  keyring: '/usr/share/keyrings/debian-archive-keyring.gpg',
  keyringPackage: 'debian-archive-keyring',
})
/** Ubuntu's archives for amd64. Packages for other architectures are on other servers. */
const ubuntu = (name: string): Release => ({
  name: `Ubuntu ${name}`,
  archives: [
    { uri: 'http://archive.ubuntu.com/ubuntu', suites: `${name} ${name}-updates` },
    { uri: 'http://security.ubuntu.com/ubuntu', suites: `${name}-security` },
  ],
  components: 'main universe',
  keyring: '/usr/share/keyrings/ubuntu-archive-keyring.gpg',
  keyringPackage: 'ubuntu-keyring',
})

const keyholder = debian('trixie')

/**
 * For each major version of PostgreSQL, the stable release that has it. Debian 12 has packages with the keys of these
 * releases.
 */
export const releaseOfPostgres: Readonly<Record<number, Release>> = {
  14: ubuntu('jammy'),
  15: debian('bookworm'),
  16: ubuntu('noble'),
  17: keyholder,
}

/**
 * Fetches the package lists of a release into `dir`. Proxies and similar settings are taken from the host's apt.
 * @throws Error that names the missing keys, or the reason why the lists are unavailable
 */
export async function aptOf(release: Release, dir: string): Promise<Apt> {
  await mkdir(join(dir, 'state/lists/partial'), { recursive: true })
  await mkdir(join(dir, 'cache/archives/partial'), { recursive: true })
  const common = `Components: ${release.components}\nSigned-By: ${await keysOf(release, dir)}\n`
  const stanzas = release.archives.map(({ uri, suites }) => `Types: deb\nURIs: ${uri}\nSuites: ${suites}\n${common}`)
  const sources = join(dir, 'release.sources')
  await writeFile(sources, stanzas.join('\n'))
  await writeFile(join(dir, 'status'), '')
  const settings = {
    'Dir::Etc::sourcelist': sources,
    'Dir::Etc::sourceparts': '-',
    'Dir::State': join(dir, 'state'),
    'Dir::State::status': join(dir, 'status'),
    'Dir::Cache': join(dir, 'cache'),
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
    // Without this option, apt would silently skip a missing archive, such as that of security updates.
    'APT::Update::Error-Mode': 'any',
    // Ignore the host's apt preferences, which are for packages of its own release.
    'Dir::Etc::preferences': '-',
    'Dir::Etc::preferencesparts': '-',
    // Without this option, apt would run as its user `_apt`, which cannot read directories of root.
    'APT::Sandbox::User': 'root',
  }
  const apt = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  await run('apt-get', [...apt, '-q', 'update'], { timeoutMs: 600_000 })
  return apt
}

/**
 * Returns the path of the keyring with the release's keys. Debian 12 has no package with Ubuntu's keys. Debian trixie
 * has one, and its signature can be checked with keys of Debian 12.
 */
async function keysOf({ name, keyring, keyringPackage }: Release, dir: string): Promise<string> {
  if (existsSync(keyring)) return keyring
  if (name === keyholder.name) throw new Error(`The keys of ${name} are missing: apt-get install ${keyringPackage}`)
  const [root, scratch] = [join(dir, 'keys'), join(dir, 'keys-scratch')]
  await mkdir(root)
  await unpackPackages([keyringPackage], root, scratch, await aptOf(keyholder, join(dir, 'keyholder')))
  return join(root, keyring)
}
