/** Uploaded sources: gzipped tars of unknown origin, read in a thread and never unpacked to disk. */
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { ArchiveFault } from '../../lib/archive/fault.ts'
import type { ArchiveLimits } from '../../lib/archive/tar.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { minutes } from '../../lib/duration.ts'
import { ApiError } from '../http/errors.ts'
import type { SourceJob, TakenSource } from './source-rewrite.ts'

/** Time limit for rewriting an uploaded archive. Rewriting 512 MiB takes 20 s on a busy core. */
const rewriteMs = minutes(2)

const Taken = Type.Object({ digest: Type.String(), sizeBytes: Type.Integer(), files: Type.Integer() })

/**
 * Rewrites the uploaded archive to `file`. The original is stored next to that file during the rewrite.
 * @throws ApiError 400 naming the refused entry, 413 when the unpacked size exceeds `limits`
 */
export async function takeSource(
  upload: Readable,
  file: string,
  limits: ArchiveLimits,
  signal: AbortSignal,
): Promise<TakenSource> {
  const from = `${file}.sent.partial`
  try {
    await pipeline(upload, createWriteStream(from, { mode: 0o600 }), { signal })
    const job: SourceJob = { from, to: file, limits }
    const thread = new URL('./source-thread.ts', import.meta.url)
    return Value.Parse(Taken, await inThread(thread, job, { signal, timeoutMs: rewriteMs }))
  } catch (cause) {
    throw cause instanceof ArchiveFault ? explained(cause, limits) : cause
  } finally {
    await rm(from, { force: true })
  }
}

function explained(cause: ArchiveFault, { maxBytes, maxEntries }: ArchiveLimits): ApiError {
  if (cause.code === 'too_large' || cause.code === 'too_many' || cause.code === 'too_slow')
    return new ApiError(
      'payload_too_large',
      `The unpacked source can have at most ${maxBytes / 2 ** 20} MiB and ${maxEntries} entries.`,
      { cause },
    )
  const message =
    cause.code === 'refused'
      ? cause.message
      : 'is not a complete tar.gz archive; create it with: tar -czf source.tar.gz .'
  return new ApiError('invalid_request', `body: ${message}`, { cause, details: [{ field: 'body', message }] })
}
