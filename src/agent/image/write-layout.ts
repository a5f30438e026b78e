import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Value } from 'typebox/value'
import { type Descriptor, Index, blobPath, platform, refName } from './layout.ts'

export interface NewImage {
  readonly tag: string
  /** Uncompressed tar archives, lowest layer first. The files are moved into the layout. */
  readonly layers: readonly string[]
  /** The member `config` of the image's configuration (image-spec v1.1, config.md). */
  readonly config: Readonly<Record<string, unknown>>
}

/**
 * Adds an image to an OCI layout (image-spec v1.1, image-layout.md). Creates the layout if necessary, and replaces an
 * image with the same tag. The index is written last, so a reader sees either the old or the new image.
 * @returns the manifest's digest
 */
export async function writeLayout(layoutDir: string, image: NewImage): Promise<string> {
  await mkdir(join(layoutDir, 'blobs', 'sha256'), { recursive: true })
  const put = async (data: Buffer) => {
    const digest = `sha256:${createHash('sha256').update(data).digest('hex')}`
    await writeFile(blobPath(layoutDir, digest), data)
    return { digest, size: data.length }
  }
  const putJson = (value: unknown) => put(Buffer.from(JSON.stringify(value)))
  const layers: Descriptor[] = []
  for (const file of image.layers) layers.push(await takeLayer(layoutDir, file))
  const config = await putJson({
    ...platform,
    config: image.config,
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.digest) },
    // Base images need one history entry per layer; otherwise buildah rejects the image.
    history: layers.map(() => ({ created_by: 'mote' })),
  })
  const manifest = await putJson({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config },
    layers,
  })
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...manifest,
    platform,
    annotations: { [refName]: image.tag },
  }
  const others = (await entriesOf(layoutDir)).filter(({ annotations }) => annotations?.[refName] !== image.tag)
  await writeFile(join(layoutDir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(
    join(layoutDir, 'index.json.new'),
    JSON.stringify({ schemaVersion: 2, manifests: [...others, entry] }),
  )
  await rename(join(layoutDir, 'index.json.new'), join(layoutDir, 'index.json'))
  return manifest.digest
}

async function takeLayer(layoutDir: string, file: string): Promise<Descriptor> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  const digest = `sha256:${hash.digest('hex')}`
  const { size } = await stat(file)
  await rename(file, blobPath(layoutDir, digest)).catch(async () => {
    // `rename` fails if the layout is on another file system. Then copy the layer as a stream, because it may not fit
    // in memory.
    await writeFile(blobPath(layoutDir, digest), createReadStream(file))
    await rm(file)
  })
  return { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest, size }
}

/** Returns the tags of an OCI layout; empty if there is no layout. */
export async function tagsOf(layoutDir: string): Promise<string[]> {
  return (await entriesOf(layoutDir)).flatMap(entry => entry.annotations?.[refName] ?? [])
}

async function entriesOf(layoutDir: string): Promise<Descriptor[]> {
  const text = await readFile(join(layoutDir, 'index.json'), 'utf8').catch(() => undefined)
  return text === undefined ? [] : Value.Parse(Index, JSON.parse(text)).manifests
}
