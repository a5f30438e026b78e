import type { ArchiveLimits } from '../../lib/archive/tar.ts'
import { answerJob } from '../../lib/archive/thread.ts'
import { writeLayer, writeLayout } from './output-read.ts'
import { unpackSent } from './upload-read.ts'

export type ArchiveJob =
  | {
      readonly kind: 'layer'
      readonly disk: string
      readonly to: string
      readonly limits: ArchiveLimits
      readonly mtime: Date
    }
  | { readonly kind: 'layout'; readonly disk: string; readonly to: string; readonly limits: ArchiveLimits }
  | { readonly kind: 'source'; readonly packed: string; readonly to: string; readonly limits: ArchiveLimits }

answerJob<ArchiveJob>(async job => {
  if (job.kind === 'source') return unpackSent(job.packed, job.to, job.limits)
  if (job.kind === 'layer') return writeLayer(job.disk, job.to, job.limits, job.mtime)
  return writeLayout(job.disk, job.to, job.limits)
})
