/**
 * Password hashing with argon2id (RFC 9106), in low-priority threads instead of on the event loop, with limited
 * concurrency so that other requests do not wait. 19 MiB, 2 passes, 1 lane (OWASP Password Storage) measured 8 to 10 ms
 * each.
 */
import { availableParallelism } from 'node:os'
import { ApiError } from '../http/errors.ts'
import { type HashJob, hashInThread } from './hash-threads.ts'

export interface PasswordHasher {
  /** Hashes a password. @throws ApiError `unavailable` with Retry-After if too many requests wait already. */
  hash(password: string): Promise<string>
  /**
   * Verifies a password. Without `stored` (the account does not exist) it takes as long as for a wrong password and
   * returns false.
   * @throws ApiError `unavailable` with Retry-After if too many requests wait already
   */
  verify(password: string, stored: string | undefined): Promise<boolean>
}

// Algorithm 2 is argon2id; the package exports it as a const enum, which cannot be used with type stripping.
const parameters = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

export interface PasswordHasherOptions {
  /** Number of concurrent hashes. The default leaves one core to the rest of the process. */
  readonly concurrency?: number
  /**
   * Maximum length of the queue. A hash takes 10 ms, so with the default of 100 the last request waits about a second
   * on one core.
   */
  readonly queue?: number
  /** Hashes or verifies a password. Default: in threads. Tests replace it to inspect the jobs. */
  readonly compute?: (job: HashJob) => Promise<string | boolean>
}

export function createPasswordHasher(options: PasswordHasherOptions = {}): PasswordHasher {
  const gate = createGate(options.concurrency ?? Math.max(1, availableParallelism() - 1), options.queue ?? 100)
  const compute = options.compute ?? hashInThread
  const hash = async (password: string) => String(await compute({ kind: 'hash', password, parameters }))
  let dummy: Promise<string> | undefined
  return {
    hash: password => gate(() => hash(password)),
    verify: (password, stored) =>
      gate(async () => {
        // A missing account costs the same work as a wrong password, so timing does not reveal which e-mail addresses
        // are registered.
        dummy ??= hash('no account has this password')
        const matches = await compute({ kind: 'verify', password, stored: stored ?? (await dummy) })
        return matches === true && stored !== undefined
      }),
  }
}

/**
 * Returns a function that runs at most `permits` jobs at once and queues at most `queue` more, first come, first
 * served.
 */
export function createGate(permits: number, queue: number) {
  const waiting: (() => void)[] = []
  let free = permits
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (free === 0) {
      if (waiting.length >= queue) {
        throw new ApiError('unavailable', 'Too many people are signing in at this moment. Try again shortly.', {
          retryAfterSeconds: 2,
        })
      }
      await new Promise<void>(resolve => waiting.push(resolve))
    } else {
      free--
    }
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free++
    }
  }
}
