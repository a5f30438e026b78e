/**
 * Passwords: argon2id (RFC 9106) in threads of low priority, never on the event loop, and never so many at once that
 * requests of others wait. 19 MiB, 2 passes, 1 lane (OWASP Password Storage) measured 8 to 10 ms a piece.
 */
import { availableParallelism } from 'node:os'
import { ApiError } from '../http/errors.ts'
import { type HashJob, hashThreads } from './hash-threads.ts'

export interface PasswordHasher {
  /** @throws ApiError `unavailable` with Retry-After when too many are waiting already. */
  hash(password: string): Promise<string>
  /** `stored` undefined (no such account) takes as long as a wrong password and is false. Throws as `hash` does. */
  verify(password: string, stored: string | undefined): Promise<boolean>
}

// Algorithm 2 is argon2id; the package exports it as a const enum, which cannot be used with type stripping.
const parameters = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

export interface PasswordHasherOptions {
  /** At the same time; the default leaves one core to everything else. */
  readonly concurrency?: number
  /** Most that may wait; at 10 ms each the last one then waits about a second per core. */
  readonly queue?: number
  /** Where the work is done: threads, unless a test looks at the jobs. */
  readonly compute?: (job: HashJob) => Promise<string | boolean>
}

export function createPasswordHasher(options: PasswordHasherOptions = {}): PasswordHasher {
  const gate = createGate(options.concurrency ?? Math.max(1, availableParallelism() - 1), options.queue ?? 100)
  const compute = options.compute ?? hashThreads()
  const hash = async (password: string) => String(await compute({ kind: 'hash', password, parameters }))
  let dummy: Promise<string> | undefined
  return {
    hash: password => gate(() => hash(password)),
    verify: (password, stored) =>
      gate(async () => {
        // Same parameters, same work: who measures learns nothing about which addresses are registered.
        dummy ??= hash('no account has this password')
        const matches = await compute({ kind: 'verify', password, stored: stored ?? (await dummy) })
        return matches === true && stored !== undefined
      }),
  }
}

/** At most `permits` at once, at most `queue` waiting, first come first served. */
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
