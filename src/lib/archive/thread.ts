/**
 * Runs one job in a separate thread: an archive that is expensive to read cannot block the main loop, and a time limit
 * or abort ends the job even during a computation.
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

/** The names of 50,000 files take at most 30 MiB; a job that needs more than this is refused. */
const heapMib = 256

/**
 * @param file the thread's module, which calls `answerJob`; scripts/build.mjs lists these modules
 * @returns the job's result, once the thread has ended
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
  // An error after the answer, or after a timeout, is ignored.
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

/** Gets about a tenth of a core against busy competitors. */
const niceness = 10

/** Called in the thread: runs `perform` and returns its result to the caller. */
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
