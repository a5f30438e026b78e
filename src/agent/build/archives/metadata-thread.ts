import { answerJob } from '../../../lib/archive/thread.ts'
import type { MetadataText } from './metadata.ts'
import { readPackage } from './npm-read.ts'
import { readManifest } from './rust-read.ts'

answerJob(async (job: MetadataText) =>
  job.kind === 'npm' ? readPackage(job.text, job.registry) : readManifest(job.text),
)
