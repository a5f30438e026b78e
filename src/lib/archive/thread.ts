/**
 * Runs a job in a worker thread, so that an archive that takes long to read does not block the main thread. A time
 * limit or an abort terminates the job even during a computation.
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

/**
 * Maximum memory of the thread. The names of 50,000 files take at most 30 MiB; a job that needs more memory than the
 * limit is refused.
 */
const heapMib = 256

/**
 * Runs a job in a new thread.
 * @param file the thread's module, which calls `answerJob`; scripts/build.mjs lists these modules
 * @returns the job's result, once the thread has exited
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
  // Ignore errors after the result or after a timeout.
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

/** Nice value of the thread, with which it gets about a tenth of a core while other threads are busy. */
const niceness = 10

/** Runs `perform` and sends its result to the main thread. Called in the worker thread. */
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
