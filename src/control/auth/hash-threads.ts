import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { seconds } from '../../lib/duration.ts'

export type HashJob =
  | { readonly kind: 'hash'; readonly password: string; readonly parameters: Readonly<Record<string, number>> }
  | { readonly kind: 'verify'; readonly password: string; readonly stored: string }

export type HashResult =
  | { readonly ok: true; readonly value: string | boolean }
  | { readonly ok: false; readonly message: string }

/** Time after which an idle thread is stopped. Starting a thread takes 40 ms, and an idle one holds 10 MiB. */
const idleMs = seconds(30)

let shared: ReturnType<typeof hashThreads> | undefined

/** Hashes or verifies a password in a thread of this process. All control planes in the process share these threads. */
export function hashInThread(job: HashJob): Promise<string | boolean> {
  shared ??= hashThreads()
  return shared(job)
}

/**
 * Returns a function that hashes or verifies passwords in threads. Threads are started on demand, handle one job at a
 * time, and do not keep the process alive. The caller limits their number.
 */
export function hashThreads(): (job: HashJob) => Promise<string | boolean> {
  const idle: { readonly worker: Worker; readonly timer: NodeJS.Timeout }[] = []

  const take = (): Worker => {
    // Reuse the most recently used thread, so that the others can time out.
    const found = idle.pop()
    if (!found) return new Worker(new URL('./password-worker.ts', import.meta.url), { env: {} })
    clearTimeout(found.timer)
    return found.worker
  }
  const giveBack = (worker: Worker) => {
    worker.unref()
    const timer = setTimeout(() => {
      const at = idle.findIndex(entry => entry.worker === worker)
      if (at !== -1) idle.splice(at, 1)
      void worker.terminate()
    }, idleMs)
    timer.unref()
    idle.push({ worker, timer })
  }

  return async job => {
    const worker = take()
    worker.ref()
    const gone = new AbortController()
    worker.once('exit', () => gone.abort(new Error('the hashing thread ended')))
    worker.postMessage(job, [])
    let result: HashResult
    try {
      // `once` also rejects when the thread emits `error`.
      ;[result] = await once(worker, 'message', { signal: gone.signal })
    } catch (cause) {
      void worker.terminate()
      throw new Error('a password could not be hashed', { cause })
    }
    worker.removeAllListeners('exit')
    giveBack(worker)
    if (!result.ok) throw new Error(result.message)
    return result.value
  }
}
