/** The source of a build that was sent to the control plane: it comes over the bus, part by part. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { Readable, Transform } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { extract } from 'tar-stream'
import { Value } from 'typebox/value'
import { type Bus, BusError } from '../../bus/bus.ts'
import { SourcePart, type SourceRequest, subjects } from '../../contract/agent.ts'
import { BuildFault } from './fault.ts'
import type { SourceTree } from './git.ts'
import { looksAt } from './plan.ts'

export interface UploadLimits {
  /** Unpacked. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Reads the part from there on. */
export type ReadPart = (offset: number) => Promise<SourcePart>

const partMs = 10_000
const mostTries = 10
const mostTextBytes = 1 << 20

/** A control plane that restarts is asked again. @throws BuildFault when the source is not kept any more */
export function partsOf(bus: Bus, hostId: string, buildId: string, signal: AbortSignal): ReadPart {
  const ask = async (request: SourceRequest) =>
    Value.Parse(SourcePart, await bus.request(subjects.source(hostId), request, { timeoutMs: partMs, signal }))
  return async offset => {
    for (let tries = 1; ; tries++) {
      try {
        return await ask({ buildId, offset })
      } catch (cause) {
        if (!(cause instanceof BusError) || cause.code === 'aborted' || cause.code === 'closed') throw cause
        if (cause.remoteCode === 'not_found') throw new BuildFault(cause.message, { cause })
        if (tries >= mostTries) throw new BuildFault('The control plane does not hand out the source.', { cause })
        await delay(1000, undefined, { signal })
      }
    }
  }
}

/**
 * The tree in the archive of that digest, a tar.gz. Nothing of it is unpacked on the host.
 * @param file where it is put, as a tar archive
 * @throws BuildFault when it is not what was sent, or larger than allowed
 */
export async function fetchUpload(
  read: ReadPart,
  digest: string,
  file: string,
  limits: UploadLimits,
): Promise<SourceTree> {
  const packed = `${file}.gz`
  await download(read, digest, packed)
  let bytes = 0
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes > limits.maxBytes) done(new BuildFault('The source is larger than it may be.'))
      else done(null, chunk)
    },
  })
  await pipeline(createReadStream(packed), createGunzip(), measure, createWriteStream(file, { mode: 0o600 }), {
    signal: limits.signal,
  })
  await rm(packed)
  const seen = await scan(file)
  return {
    list: async (dir = '') => [...(seen.names.get(dir) ?? [])],
    read: async path => seen.texts.get(path),
    archive: target => rename(file, target),
  }
}

async function download(read: ReadPart, digest: string, file: string): Promise<void> {
  const hash = createHash('sha256')
  const handle = await open(file, 'wx', 0o600)
  try {
    for (let offset = 0, sizeBytes = 1; offset < sizeBytes; ) {
      const part = await read(offset)
      const data = Buffer.from(part.data, 'base64')
      if (data.length === 0) throw new BuildFault('The source came in part only.')
      hash.update(data)
      await handle.write(data)
      offset += data.length
      sizeBytes = part.sizeBytes
    }
  } finally {
    await handle.close()
  }
  if (hash.digest('hex') !== digest) throw new BuildFault('The source is not what was sent.')
}

/** The names at the top and in `public`, and the texts that a plan is made by. */
async function scan(file: string) {
  const names = new Map<string, Set<string>>()
  const texts = new Map<string, string>()
  const tar = extract()
  const fed = pipeline(createReadStream(file), tar)
  for await (const entry of tar) {
    const parts = entry.header.name.split('/').filter(part => part !== '')
    const [top = '', next] = parts
    names.set('', (names.get('') ?? new Set()).add(top))
    if (next !== undefined) names.set(top, (names.get(top) ?? new Set()).add(next))
    const isText = parts.length === 1 && looksAt.some(name => name === top) && (entry.header.size ?? 0) <= mostTextBytes
    if (isText) texts.set(top, await text(Readable.from(entry)))
    else entry.resume()
  }
  await fed
  return { names, texts }
}
