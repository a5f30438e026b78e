/** Composes the image of an app: the layers of its base image and one layer of its own. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, rename, stat, writeFile, copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { createWriteStream } from 'node:fs'
import { Type } from 'typebox'
import { blobPath, type Descriptor, findManifest, parseDocument, platform, readBlob, refName } from '../image/layout.ts'

const BaseConfig = Type.Object({ rootfs: Type.Object({ diff_ids: Type.Array(Type.String()) }) })

/** Tag of the only image in the OCI layout of a finished build. */
export const builtTag = 'built'

/**
 * Creates an OCI layout in `dir` from the base image and, on top, the layer in `layerFile`, which is compressed and
 * removed.
 * @param created the creation time in the image's config. Hosts set it as modification time of the image's files, so
 * that ETags of web servers differ between versions.
 * @returns the manifest's digest
 */
export async function composeImage(
  baseLayout: string,
  layerFile: string,
  config: Readonly<Record<string, unknown>>,
  dir: string,
  created: Date,
): Promise<string> {
  await mkdir(join(dir, 'blobs', 'sha256'), { recursive: true })
  const base = await findManifest(baseLayout, 'latest')
  const below = parseDocument(BaseConfig, await readBlob(baseLayout, base.manifest.config.digest), 'image config')
  for (const { digest } of base.manifest.layers) await share(blobPath(baseLayout, digest), blobPath(dir, digest))
  const diffId = await digestOf(layerFile)
  const packed = `${layerFile}.gz`
  await pipeline(createReadStream(layerFile), createGzip({ level: 1 }), createWriteStream(packed))
  const digest = await digestOf(packed)
  const { size } = await stat(packed)
  await rename(packed, blobPath(dir, digest))
  const put = async (value: unknown) => {
    const data = Buffer.from(JSON.stringify(value))
    const named = `sha256:${createHash('sha256').update(data).digest('hex')}`
    await writeFile(blobPath(dir, named), data)
    return { digest: named, size: data.length }
  }
  const configBlob = await put({
    ...platform,
    created: created.toISOString(),
    config,
    rootfs: { type: 'layers', diff_ids: [...below.rootfs.diff_ids, diffId] },
    // Base images need one history entry per layer; otherwise buildah rejects the image.
    history: [...below.rootfs.diff_ids, diffId].map(() => ({ created_by: 'mote build' })),
  })
  const top: Descriptor = { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', digest, size }
  const manifest = await put({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...configBlob },
    layers: [...base.manifest.layers, top],
  })
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...manifest,
    platform,
    annotations: { [refName]: builtTag },
  }
  await writeFile(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(join(dir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return manifest.digest
}

/** Hard-links the file if the file system supports it, and copies it otherwise. */
export async function share(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return
    await copyFile(from, to)
  })
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return `sha256:${hash.digest('hex')}`
}
