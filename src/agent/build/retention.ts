/** Stores built images: in a registry, or in an OCI layout per app in the host's image directory. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { privateDir } from '../../lib/files.ts'
import {
  blobPath,
  type Descriptor,
  findManifest,
  Index,
  Manifest,
  parseDocument,
  readBlob,
  refName,
} from '../image/layout.ts'
import { pushImage } from '../image/registry.ts'
import type { UsableRegistry } from '../image/access.ts'
import { builtTag, share } from './compose.ts'

/** Number of images retained per app, so that a rollback finds an old one. */
export const keptImages = 10

/** Pushes the built image in the OCI layout `layout` to a registry. @returns `repository@sha256:...` */
export async function pushBuilt(
  layout: string,
  repository: string,
  registries: readonly UsableRegistry[],
  signal: AbortSignal,
): Promise<string> {
  const { digest } = await findManifest(layout, builtTag)
  await pushImage(layout, builtTag, `${repository}:${tagOf(digest)}`, registries, signal)
  return `${repository}@${digest}`
}

/**
 * Adds the image in `layout` to the app's layout and deletes all but the newest images. The index is written last, so
 * that a reader finds either the old or the new list of images.
 * @returns `oci:<app>:<tag derived from the digest>`
 */
export async function keepBuilt(layout: string, imageDir: string, appId: string): Promise<string> {
  const name = `app-${appId}`
  const dir = join(imageDir, name)
  const { digest, size } = await findManifest(layout, builtTag)
  await privateDir(imageDir)
  await mkdir(join(dir, 'blobs', 'sha256'), { recursive: true })
  for (const blob of await readdir(join(layout, 'blobs', 'sha256')))
    await share(blobPath(layout, `sha256:${blob}`), blobPath(dir, `sha256:${blob}`))
  const tag = tagOf(digest)
  const mediaType = 'application/vnd.oci.image.manifest.v1+json'
  const entry: Descriptor = { mediaType, digest, size, annotations: { [refName]: tag } }
  const others = (await entriesOf(dir)).filter(one => one.digest !== digest)
  const entries = [...others, entry].slice(-keptImages)
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(join(dir, 'index.json.new'), JSON.stringify({ schemaVersion: 2, manifests: entries }))
  await rename(join(dir, 'index.json.new'), join(dir, 'index.json'))
  await removeUnused(dir, entries)
  return `oci:${name}:${tag}`
}

const tagOf = (digest: string) => digest.replace(':', '-')

async function entriesOf(dir: string): Promise<Descriptor[]> {
  const file = join(dir, 'index.json')
  return existsSync(file) ? parseDocument(Index, await readFile(file, 'utf8'), 'index.json').manifests : []
}

async function removeUnused(dir: string, entries: readonly Descriptor[]): Promise<void> {
  const used = new Set<string>()
  for (const { digest } of entries) {
    const { config, layers } = parseDocument(Manifest, await readBlob(dir, digest), digest)
    for (const one of [digest, config.digest, ...layers.map(layer => layer.digest)]) used.add(one)
  }
  for (const blob of await readdir(join(dir, 'blobs', 'sha256')))
    if (!used.has(`sha256:${blob}`)) await rm(blobPath(dir, `sha256:${blob}`), { force: true })
}
