/** A worker thread that misbehaves as the test requests: crashes, exits, loops forever or exhausts memory. */
import { ArchiveFault } from '../../../src/lib/archive/fault.ts'
import { answerJob } from '../../../src/lib/archive/thread.ts'

answerJob<string | Int32Array>(async job => {
  if (typeof job !== 'string') for (;;) Atomics.add(job, 0, 1)
  if (job === 'fault') throw new ArchiveFault('refused', 'no good')
  if (job === 'crash') throw new Error('a bug')
  if (job === 'exit') process.exit(0)
  const kept: string[][] = []
  while (job === 'memory') kept.push(Array.from({ length: 1000 }, (_, n) => `${n}`.padEnd(100)))
  return { answer: 42 }
})
