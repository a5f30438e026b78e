import { arch } from 'node:os'
import { join } from 'node:path'
import { Type, type Static, type TSchema } from 'typebox'
import { Value } from 'typebox/value'
import { hasCode, readRegular } from '../../lib/files.ts'
import { inlineBytes, slimDocument } from './document.ts'
import { ImageError } from '../base/image-error.ts'

const Digest = Type.String({ pattern: '^sha256:[0-9a-f]{64}$' })

export const Descriptor = Type.Object({
  mediaType: Type.Optional(Type.String()),
  digest: Digest,
  size: Type.Integer({ minimum: 0 }),
  platform: Type.Optional(Type.Object({ architecture: Type.String(), os: Type.String() })),
  annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
})
export type Descriptor = Static<typeof Descriptor>

/** An OCI image index, or Docker's manifest list, which only differs in its media type. */
export const Index = Type.Object({ manifests: Type.Array(Descriptor) })
/** An OCI image manifest, or Docker's manifest schema 2. */
export const Manifest = Type.Object({ config: Descriptor, layers: Type.Array(Descriptor) })
export type Manifest = Static<typeof Manifest>

const Strings = Type.Union([Type.Array(Type.String()), Type.Null()])
/** An OCI image configuration (image-spec v1.1, config.md). */
export const ImageConfig = Type.Object({
  /** The time at which the image was created, in the format of RFC 3339. */
  created: Type.Optional(Type.Unknown()),
  config: Type.Optional(
    Type.Object({
      User: Type.Optional(Type.String()),
      Env: Type.Optional(Strings),
      Entrypoint: Type.Optional(Strings),
      Cmd: Type.Optional(Strings),
      WorkingDir: Type.Optional(Type.String()),
      StopSignal: Type.Optional(Type.String()),
    }),
  ),
})
export type ImageConfig = Static<typeof ImageConfig>

/** This host's platform in the notation of Go and OCI. */
export const platform = { os: 'linux', architecture: arch() === 'arm64' ? 'arm64' : 'amd64' } as const

export interface FoundManifest {
  readonly digest: string
  readonly size: number
  readonly manifest: Manifest
}

/**
 * Finds the manifest for this host's platform under `tag` in an OCI layout, also in nested indexes.
 * @throws ImageError
 */
export async function findManifest(layoutDir: string, tag: string): Promise<FoundManifest> {
  const index = parseDocument(Index, await readLayoutFile(join(layoutDir, 'index.json'), inlineBytes), 'index.json')
  const named = index.manifests.filter(({ annotations }) => annotations?.[refName] === tag)
  const only = index.manifests.length === 1 && tag === 'latest' ? index.manifests[0] : undefined
  const entry = pickPlatform(named) ?? only
  if (entry === undefined) throw new ImageError('image_not_found', `the OCI layout has no image tagged "${tag}"`)
  return resolveManifest(layoutDir, entry, 0)
}

async function resolveManifest(layoutDir: string, entry: Descriptor, depth: number): Promise<FoundManifest> {
  const text = await readBlob(layoutDir, entry.digest)
  const document: unknown = JSON.parse(text)
  if (!Value.Check(Index, document)) {
    return { digest: entry.digest, size: entry.size, manifest: parseDocument(Manifest, text, entry.digest) }
  }
  const next = pickPlatform(document.manifests)
  if (next === undefined || depth > 3) {
    throw new ImageError('image_unusable', `the image has no variant for ${platform.os}/${platform.architecture}`)
  }
  return resolveManifest(layoutDir, next, depth + 1)
}

/** Returns the manifest for this host's platform; if there is none, the first one that names no platform. */
function pickPlatform(entries: readonly Descriptor[]): Descriptor | undefined {
  const fits = (entry: Descriptor) =>
    entry.platform?.os === platform.os && entry.platform.architecture === platform.architecture
  return entries.find(fits) ?? entries.find(entry => entry.platform === undefined)
}

export const refName = 'org.opencontainers.image.ref.name'

export function blobPath(layoutDir: string, digest: string): string {
  return join(layoutDir, 'blobs', ...digest.split(':'))
}

export async function readBlob(layoutDir: string, digest: string): Promise<string> {
  return slimDocument(await readLayoutFile(blobPath(layoutDir, digest), maxDocumentBytes))
}

/**
 * Limit on the size of manifests and configurations. Registries limit manifests to the same size (distribution-spec
 * v1.1, "Pushing manifests").
 */
const maxDocumentBytes = 4 << 20

async function readLayoutFile(path: string, maxBytes: number): Promise<string> {
  try {
    const text = await readRegular(path, maxBytes)
    if (text !== undefined) return text
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
    throw new ImageError('image_not_found', 'the image directory has no OCI layout of this name', { cause: error })
  }
  throw new ImageError(
    'image_unusable',
    `a manifest or configuration of the image exceeds the limit of ${maxBytes} bytes`,
  )
}

export function parseDocument<T extends TSchema>(schema: T, text: string, what: string): Static<T> {
  const document: unknown = JSON.parse(text)
  if (Value.Check(schema, document)) return document
  throw new ImageError('image_unusable', `${what} is not a valid OCI document`)
}
