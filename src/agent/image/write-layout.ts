import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Value } from 'typebox/value'
import { type Descriptor, Index, blobPath, platform, refName } from './layout.ts'

export interface NewImage {
  readonly tag: string
  /** Uncompressed tar archives, lowest first; they are moved into the layout. */
  readonly layers: readonly string[]
  /** `config` of the image configuration (image-spec v1.1, config.md). */
  readonly config: Readonly<Record<string, unknown>>
}

/**
 * Adds an image to an OCI layout (image-spec v1.1, image-layout.md), which is made when it is not there; another image
 * of that tag is replaced. The index changes last, so a reader sees the old image or the new.
 * @returns the manifest's digest.
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
    // As many as there are layers: buildah takes no image as a base where they differ.
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
    // Another file system: the layer is read once more, since layers are larger than memory should hold.
    await writeFile(blobPath(layoutDir, digest), createReadStream(file))
    await rm(file)
  })
  return { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest, size }
}

/** Tags of an OCI layout; none when there is no layout. */
export async function tagsOf(layoutDir: string): Promise<string[]> {
  return (await entriesOf(layoutDir)).flatMap(entry => entry.annotations?.[refName] ?? [])
}

async function entriesOf(layoutDir: string): Promise<Descriptor[]> {
  const text = await readFile(join(layoutDir, 'index.json'), 'utf8').catch(() => undefined)
  return text === undefined ? [] : Value.Parse(Index, JSON.parse(text)).manifests
}
