import { ImageError } from '../base/image-error.ts'
/** A parsed image reference (`VmSpec.image`): an image in a registry, or in an OCI layout on this host. */
export type ImageReference =
  | { readonly kind: 'layout'; readonly name: string; readonly tag: string }
  | {
      readonly kind: 'registry'
      /** The registry as `host[:port]`. */
      readonly registry: string
      /** Registry and repository, such as `registry.example.com/team/app`, without tag and digest. */
      readonly repository: string
      readonly tag: string
      /** Digest `sha256:...` if the reference has one. */
      readonly digest: string | null
    }

const layoutPattern = /^oci:([a-z0-9][a-z0-9._-]{0,127})(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$/
// The grammar of github.com/distribution/reference, with an optional registry as in Docker.
const registryPattern =
  /^(?:((?:[a-zA-Z0-9.-]+\.[a-zA-Z0-9-]+|localhost)(?::\d{1,5})?|[a-zA-Z0-9-]+:\d{1,5}|\[[0-9a-fA-F:]+\](?::\d{1,5})?)\/)?([a-z0-9]+(?:(?:[._]|__|-+|\/)[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$/

/** Parses an image reference. @throws ImageError `invalid_image` */
export function parseImage(text: string): ImageReference {
  const layout = layoutPattern.exec(text)
  if (layout?.[1] !== undefined && !layout[1].includes('..')) {
    return { kind: 'layout', name: layout[1], tag: layout[2] ?? 'latest' }
  }
  const match = text.startsWith('oci:') || text.length > 512 ? null : registryPattern.exec(text)
  if (match?.[2] === undefined) {
    throw new ImageError(
      'invalid_image',
      `"${text.slice(0, 200)}" is not an image reference: use registry/name:tag or oci:name[:tag]`,
    )
  }
  const registry = match[1] ?? 'docker.io'
  const path = registry === 'docker.io' && !match[2].includes('/') ? `library/${match[2]}` : match[2]
  const repository = `${registry}/${path}`
  return { kind: 'registry', registry, repository, tag: match[3] ?? 'latest', digest: match[4] ?? null }
}

/**
 * Returns a reference to the same image by digest, so that a later change of the tag has no effect. References to OCI
 * layouts are returned unchanged, because images in layouts are found by tag only.
 * @param digest digest of the manifest, `sha256:...`
 * @throws ImageError `invalid_image`
 */
export function pinnedImage(text: string, digest: string): string {
  const reference = parseImage(text)
  return reference.kind === 'registry' ? `${reference.repository}@${digest}` : text
}
