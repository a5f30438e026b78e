/** Downloads an uploaded source from the control plane over the bus, part by part. */
import { createHash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type Bus, BusError } from '../../bus/bus.ts'
import { SourcePart, type SourceRequest, subjects } from '../../contract/agent.ts'
import { ArchiveFault } from '../../lib/archive/fault.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { minutes } from '../../lib/duration.ts'
import type { ArchiveJob } from './archive-thread.ts'
import { BuildFault } from './fault.ts'
import type { SourceTree } from './git.ts'
import { archiveThread } from './output.ts'

export interface UploadLimits {
  /** Limit on the unpacked size of the source, in bytes. */
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Reads the part of an uploaded source that starts at this offset. */
export type ReadPart = (offset: number) => Promise<SourcePart>

const partMs = 10_000
const mostTries = 10
/** Limit on the number of files and directories in an uploaded archive. The control plane accepts at most 50,000. */
const maxEntries = 100_000

/**
 * Returns a function that reads a part of the source, and retries while the control plane is unavailable.
 * @throws BuildFault if the source has been deleted
 */
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
        if (tries >= mostTries) throw new BuildFault('The control plane does not provide the source.', { cause })
        await delay(1000, undefined, { signal })
      }
    }
  }
}

/**
 * Downloads the uploaded source with this digest, and decompresses the tar.gz. The host does not unpack its files.
 * @param file where the tar archive is written
 * @throws BuildFault if the digest differs, or the source is larger than allowed
 */
export async function fetchUpload(
  read: ReadPart,
  digest: string,
  file: string,
  { maxBytes, signal }: UploadLimits,
): Promise<SourceTree> {
  const packed = `${file}.gz`
  await download(read, digest, packed)
  const { paths, texts } = await unpack({ kind: 'source', packed, to: file, limits: { maxBytes, maxEntries } }, signal)
  await rm(packed)
  const textOf = new Map(texts)
  return {
    made: new Date(),
    list: async () => paths,
    read: async path => textOf.get(path),
    archive: target => rename(file, target),
  }
}

const SentTree = Type.Object({
  paths: Type.Array(Type.String()),
  texts: Type.Array(Type.Tuple([Type.String(), Type.String()])),
})

/**
 * Time limit for scanning an uploaded source. Reading 1 GiB at 20 MiB/s, the speed of a busy disk, takes 52 seconds.
 */
const unpackMs = minutes(1)

async function unpack(job: Extract<ArchiveJob, { kind: 'source' }>, signal: AbortSignal) {
  try {
    return Value.Parse(SentTree, await inThread(archiveThread, job, { signal, timeoutMs: unpackMs }))
  } catch (cause) {
    if (!(cause instanceof ArchiveFault)) throw cause
    const isUnreadable = cause.code === 'unreadable' || cause.code === 'refused'
    throw new BuildFault(
      isUnreadable ? 'The source is not a readable archive.' : 'The source exceeds the size limit.',
      {
        cause,
      },
    )
  }
}

async function download(read: ReadPart, digest: string, file: string): Promise<void> {
  const hash = createHash('sha256')
  const handle = await open(file, 'wx', 0o600)
  try {
    for (let offset = 0, sizeBytes = 1; offset < sizeBytes; ) {
      const part = await read(offset)
      const data = Buffer.from(part.data, 'base64')
      if (data.length === 0) throw new BuildFault('The source arrived incomplete.')
      hash.update(data)
      await handle.write(data)
      offset += data.length
      sizeBytes = part.sizeBytes
    }
  } finally {
    await handle.close()
  }
  if (hash.digest('hex') !== digest)
    throw new BuildFault(
      'The uploaded source was damaged during the transfer: the digest of the received data differs. Deploy again.',
    )
}
