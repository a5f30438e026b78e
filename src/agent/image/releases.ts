/** Releases of Debian and Ubuntu as package sources, independent of the host's own release: a private apt for each. */
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { type Apt, unpackPackages } from './debian.ts'

export interface Release {
  readonly name: string
  /** sources.list(5): `URIs`, and the `Suites` there. */
  readonly archives: readonly { readonly uri: string; readonly suites: string }[]
  readonly components: string
  /** The keyring file, and the package that contains it, on the host or in Debian trixie. */
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
/** For amd64: other architectures are on other servers. */
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

/** The stable release with this major version of PostgreSQL, signed by keys that Debian 12 packages. */
export const releaseOfPostgres: Readonly<Record<number, Release>> = {
  14: ubuntu('jammy'),
  15: debian('bookworm'),
  16: ubuntu('noble'),
  17: keyholder,
}

/**
 * Fetches the package lists of that release into `dir`. Proxies and similar settings are those of the host's apt.
 * @throws Error that names the missing keys, or says why the lists are unavailable
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
    // A missing archive (such as security updates) is an error, because skipping it would be silent.
    'APT::Update::Error-Mode': 'any',
    // The host's preferences apply only to its own packages.
    'Dir::Etc::preferences': '-',
    'Dir::Etc::preferencesparts': '-',
    // `_apt` cannot read directories of root.
    'APT::Sandbox::User': 'root',
  }
  const apt = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  await run('apt-get', [...apt, '-q', 'update'], { timeoutMs: 600_000 })
  return apt
}

/**
 * Returns the release's keyring. Debian 12 has no package of Ubuntu's keys; trixie has one, signed by keys that Debian
 * 12 has.
 */
async function keysOf({ name, keyring, keyringPackage }: Release, dir: string): Promise<string> {
  if (existsSync(keyring)) return keyring
  if (name === keyholder.name) throw new Error(`The keys of ${name} are missing: apt-get install ${keyringPackage}`)
  const [root, scratch] = [join(dir, 'keys'), join(dir, 'keys-scratch')]
  await mkdir(root)
  await unpackPackages([keyringPackage], root, scratch, await aptOf(keyholder, join(dir, 'keyholder')))
  return join(root, keyring)
}
