/**
 * One job in a thread of its own: whatever an archive makes its reader do, the main loop goes on, and the time limit and
 * an abort end it in the middle of a computation.
 */
import { once } from 'node:events'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { hasCode } from '../files.ts'
import { ArchiveFault, type ArchiveFaultCode } from './fault.ts'
import { lowerOwnPriority } from '../low-priority.ts'

export interface ThreadLimits {
  readonly signal: AbortSignal
  readonly timeoutMs: number
}

type Answer =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly code: ArchiveFaultCode | undefined }

/** The names of 50,000 files are 30 MiB at most; what needs more than this is refused. */
const heapMib = 256

/**
 * @param file the thread's module, which calls `answerJob`; scripts/build.mjs lists them
 * @returns what the job answered, once the thread has ended
 * @throws ArchiveFault of the job, or when it takes too long or too much memory; the signal's reason when aborted
 */
export async function inThread<Job>(file: URL, job: Job, { signal, timeoutMs }: ThreadLimits): Promise<unknown> {
  signal.throwIfAborted()
  const late = AbortSignal.timeout(timeoutMs)
  const worker = new Worker(file, {
    workerData: job,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: heapMib, maxYoungGenerationSizeMb: 32 },
  })
  const gone = new AbortController()
  // One that comes after the answer, or after we gave up, is nobody's any more.
  worker.on('error', () => undefined)
  worker.once('exit', () => gone.abort(new Error('the thread ended without an answer')))
  try {
    const [answer]: Answer[] = await once(worker, 'message', { signal: AbortSignal.any([signal, late, gone.signal]) })
    if (answer?.ok === true) return answer.value
    if (answer?.code !== undefined) throw new ArchiveFault(answer.code, answer.message)
    throw new Error(`an archive could not be read: ${answer?.message}`)
  } catch (cause) {
    signal.throwIfAborted()
    if (late.aborted) throw new ArchiveFault('too_slow', `not read within ${timeoutMs / 1000} s`, { cause })
    if (hasCode(cause, 'ERR_WORKER_OUT_OF_MEMORY'))
      throw new ArchiveFault('too_large', `more than ${heapMib} MiB of names`, { cause })
    throw cause
  } finally {
    await worker.terminate()
  }
}

/** A tenth of a core against busy neighbors. */
const niceness = 10

/** In the thread: answers with what `perform` resolves to. */
export function answerJob<Job>(perform: (job: Job) => Promise<unknown>): void {
  lowerOwnPriority(niceness)
  const job: Job = workerData
  perform(job).then(
    value => say({ ok: true, value }),
    (error: unknown) => {
      const code = error instanceof ArchiveFault ? error.code : undefined
      say({ ok: false, message: error instanceof Error ? error.message : String(error), code })
    },
  )
}

const say = (answer: Answer) => parentPort?.postMessage(answer, [])
