/** Parses the metadata of an npm package. Runs in a worker thread, because the metadata may have up to 32 MiB. */
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'

const Names = Type.Record(Type.String(), Type.String())
/** https://docs.npmjs.com/cli/v11/configuring-npm/package-json#os */
const Platforms = Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())]))
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
      os: Platforms,
      cpu: Platforms,
      libc: Platforms,
    }),
  ),
})

/** The part of an npm package's metadata that is cached. */
export const Package = Type.Object({
  tags: Names,
  versions: Type.Array(
    Type.Object({
      version: Type.String(),
      url: Type.String(),
      sha512: Type.String(),
      deprecated: Type.Boolean(),
      /** Whether npm would install this version on the builder, which is Linux on x64 with glibc. */
      isForBuilder: Type.Boolean(),
      /** Optional dependencies that hold the binaries for Linux on x64, with their version ranges. */
      parts: Names,
    }),
  ),
})
export type Package = Static<typeof Package>

/**
 * Maximum number of a package's versions and tags; the package `npm` has 700 versions. Finding the best match in a
 * longer list would block the caller for too long.
 */
const mostVersions = 5000
const mostNames = 500
const mostParts = 20

/** The builder's platform. Package names do not suffice to match it: `bun-linux-x64-android` is not for Linux. */
const builder = { os: 'linux', cpu: 'x64', libc: 'glibc' } as const

function admits(platforms: string | readonly string[] | undefined, own: string): boolean {
  const named = platforms === undefined ? [] : [platforms].flat()
  if (named.includes(`!${own}`)) return false
  const wanted = named.filter(one => !one.startsWith('!'))
  return wanted.length === 0 || wanted.includes(own) || wanted.includes('any')
}

/**
 * Returns the versions without dependencies, apart from optional and bundled ones.
 * @throws Error if the registry's response does not match the schema, or has too many versions
 */
export function readPackage(text: string, registry: string): Package {
  const { 'dist-tags': tags, versions } = Value.Parse(Packument, JSON.parse(text))
  const { origin } = new URL(registry)
  const whole = Object.entries(versions).flatMap(([version, one]) => {
    const { dist, dependencies = {}, optionalDependencies = {}, bundleDependencies = [] } = one
    const sha512 = /(?:^| )sha512-([A-Za-z0-9+/]{86}==)/.exec(dist.integrity ?? '')?.[1]
    const bundled = (other: string) => bundleDependencies === true || [bundleDependencies].flat().includes(other)
    const needed = Object.keys(dependencies).filter(
      other => !bundled(other) && !Object.hasOwn(optionalDependencies, other),
    )
    // Versions with a tarball on another server are skipped: a response could make the host connect to any address.
    const isHere = URL.parse(dist.tarball)?.origin === origin
    if (sha512 === undefined || needed.length > 0 || !isHere) return []
    const parts = Object.entries(optionalDependencies).filter(([other]) => /linux-x64(?!.*musl)/.test(other))
    if (parts.length > mostParts) return []
    return [
      {
        version,
        url: dist.tarball,
        sha512: Buffer.from(sha512, 'base64').toString('hex'),
        deprecated: one.deprecated !== undefined && one.deprecated !== false,
        isForBuilder: admits(one.os, builder.os) && admits(one.cpu, builder.cpu) && admits(one.libc, builder.libc),
        parts: Object.fromEntries(parts),
      },
    ]
  })
  if (whole.length > mostVersions || Object.keys(tags).length > mostNames)
    throw new Error(`the package exceeds the limit of ${mostVersions} versions or ${mostNames} tags`)
  return { tags, versions: whole }
}
