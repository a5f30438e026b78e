/**
 * Reads a builder VM's output disk. The content is untrusted: it is read in a thread, within limits, and never
 * unpacked.
 */
import { open } from 'node:fs/promises'
import { minutes } from '../../lib/duration.ts'
import type { ArchiveJob } from './archive-thread.ts'
import { ArchiveFault } from '../../lib/archive/fault.ts'
import type { ArchiveLimits } from '../../lib/archive/tar.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { BuildFault } from './fault.ts'

export interface OutputLimits extends ArchiveLimits {
  readonly signal: AbortSignal
}

export const outputLimits = { maxBytes: 4 * 2 ** 30, maxEntries: 500_000 } as const

/** Time for 4 GiB at 20 MiB/s, the speed of a busy disk. */
const readMs = minutes(4)

/**
 * Writes the files below `app/`, and those of Debian packages below `usr/` and `etc/`, as a layer and refuses all
 * others. Owners become the app's user or root.
 * @param mtime of all files: web servers derive ETag and Last-Modified from it. With a constant one, a browser kept the
 *   page of the previous version if both had the same size
 * @throws BuildFault
 */
export const readLayer = (
  disk: string,
  file: string,
  { signal, ...limits }: OutputLimits,
  mtime: Date,
): Promise<void> => read({ kind: 'layer', disk, to: file, limits, mtime }, signal)

/**
 * Copies the OCI layout in `image/` and checks its blobs against their digests. `dir` gets `blobs`, `index.json` and
 * `oci-layout`.
 * @throws BuildFault
 */
export const readLayout = (disk: string, dir: string, { signal, ...limits }: OutputLimits): Promise<void> =>
  read({ kind: 'layout', disk, to: dir, limits }, signal)

async function read(job: Extract<ArchiveJob, { kind: 'layer' | 'layout' }>, signal: AbortSignal): Promise<void> {
  const { maxBytes, maxEntries } = job.limits
  try {
    await inThread(archiveThread, job, { signal, timeoutMs: readMs })
  } catch (cause) {
    if (!(cause instanceof ArchiveFault)) throw cause
    if (cause.code === 'refused') throw new BuildFault(cause.message, { cause })
    if (cause.code === 'unreadable') throw new BuildFault('The build left no readable result.', { cause })
    throw new BuildFault(`The result is larger than ${Math.floor(maxBytes / 2 ** 20)} MiB or ${maxEntries} files.`, {
      cause,
    })
  }
}

export const archiveThread = new URL('./archive-thread.ts', import.meta.url)

/** Creates an empty, sparse disk of that size. */
export async function makeDisk(file: string, sizeMib: number): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.truncate(sizeMib * 2 ** 20)
  } finally {
    await handle.close()
  }
}
