/**
 * Reads a builder VM's output disk. Its content is untrusted: a worker thread reads it within limits, and nothing is
 * unpacked on the host.
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

/**
 * Time limit for reading the output disk. Reading 4 GiB at 20 MiB/s, the speed of a busy disk, takes three and a half
 * minutes.
 */
const readMs = minutes(4)

/**
 * Writes the files below `app/`, and those of Debian packages below `usr/` and `etc/`, as a layer; other files are
 * refused. Owners become the app's user or root, and times are removed, so that equal trees give equal layers.
 * @throws BuildFault
 */
export const readLayer = (disk: string, file: string, { signal, ...limits }: OutputLimits): Promise<void> =>
  read({ kind: 'layer', disk, to: file, limits }, signal)

/**
 * Copies the OCI layout in the disk's directory `image/` to `dir`, and checks its blobs against their digests.
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
    if (cause.code === 'unreadable') throw new BuildFault('The build produced no readable result.', { cause })
    throw new BuildFault(
      `The result of the build exceeds the limit of ${Math.floor(maxBytes / 2 ** 20)} MiB or ${maxEntries} files.`,
      { cause },
    )
  }
}

export const archiveThread = new URL('./archive-thread.ts', import.meta.url)

/** Creates an empty, sparse disk of this size. */
export async function makeDisk(file: string, sizeMib: number): Promise<void> {
  const handle = await open(file, 'w', 0o600)
  try {
    await handle.truncate(sizeMib * 2 ** 20)
  } finally {
    await handle.close()
  }
}
