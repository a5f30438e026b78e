import { answerJob } from '../../lib/archive/thread.ts'
import { countLayers } from './layer-count.ts'

answerJob(countLayers)
