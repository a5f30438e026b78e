import type { ArchiveLimits } from '../../lib/archive/tar.ts'
import { answerJob } from '../../lib/archive/thread.ts'
import { writeLayer, writeLayout } from './output-read.ts'
import { unpackSent } from './upload-read.ts'

export type ArchiveJob =
  | { readonly kind: 'layer' | 'layout'; readonly disk: string; readonly to: string; readonly limits: ArchiveLimits }
  | { readonly kind: 'source'; readonly packed: string; readonly to: string; readonly limits: ArchiveLimits }

answerJob<ArchiveJob>(async job => {
  if (job.kind === 'source') return unpackSent(job.packed, job.to, job.limits)
  await (job.kind === 'layer' ? writeLayer : writeLayout)(job.disk, job.to, job.limits)
})
