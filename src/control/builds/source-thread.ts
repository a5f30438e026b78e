import { answerJob } from '../../lib/archive/thread.ts'
import { rewriteSource } from './source-rewrite.ts'

answerJob(rewriteSource)
