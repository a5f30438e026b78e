/**
 * Guards calls to external APIs with a timeout, a few tries and a circuit breaker, so that a provider that is down does
 * not delay every request.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { abortable } from '../../lib/abortable.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import { seconds } from '../../lib/duration.ts'
import { ApiError } from './errors.ts'

export interface GuardLimits {
  /** Time limit of each try. */
  readonly timeoutMs: number
  readonly tries: number
  /** Consecutive failed calls that open the breaker. */
  readonly failures: number
  /** Time for which the breaker stays open. After it, one call may probe the provider. */
  readonly openMs: number
}

/**
 * Default limits. Five seconds is twice the response time that the providers promise; a user waits at most about ten.
 */
export const defaultGuardLimits: GuardLimits = { timeoutMs: seconds(5), tries: 2, failures: 5, openMs: seconds(30) }

/** Runs a call that is safe to repeat. @throws ApiError 503 `unavailable` when it fails or the breaker is open */
export type Guard = <T>(call: () => Promise<T>) => Promise<T>

/**
 * Creates a guard for one provider, with its own circuit breaker.
 * @param who name of the provider in error messages: "The billing provider"
 */
export function createGuard(
  clock: Clock,
  limits: GuardLimits = defaultGuardLimits,
  who = 'The billing provider',
): Guard {
  let failed = 0
  let openUntilMs = 0
  const retryAfterSeconds = Math.ceil(limits.openMs / 1000)

  async function attempt<T>(call: () => Promise<T>): Promise<T> {
    for (let n = 1; ; n++) {
      try {
        return await abortable(call(), AbortSignal.timeout(limits.timeoutMs))
      } catch (cause) {
        if (n >= limits.tries || isRefusal(cause)) throw cause
        await delay(backoffMs(n, Math.random()))
      }
    }
  }

  return async call => {
    if (clock.monotonicMs() < openUntilMs)
      throw new ApiError('unavailable', `${who} does not answer. Try again later.`, { retryAfterSeconds })
    // While one call probes the provider, all other calls are refused.
    if (failed >= limits.failures) openUntilMs = clock.monotonicMs() + limits.openMs
    try {
      const result = await attempt(call)
      failed = 0
      openUntilMs = 0
      return result
    } catch (cause) {
      if (isRefusal(cause)) {
        failed = 0
        openUntilMs = 0
        const text = `${who} refused the request. See the log of the server for its response.`
        throw new ApiError('unavailable', text, { cause })
      }
      failed += 1
      if (failed >= limits.failures) openUntilMs = clock.monotonicMs() + limits.openMs
      throw new ApiError('unavailable', `${who} does not answer. Try again later.`, {
        cause,
        retryAfterSeconds,
      })
    }
  }
}

/** HTTP status of a provider's error: `statusCode` with Polar and Stripe, `status` with Octokit. */
export function statusOf(cause: unknown): number | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined
  const status: unknown = Reflect.get(cause, 'statusCode') ?? Reflect.get(cause, 'status')
  return typeof status === 'number' ? status : undefined
}

/** Returns whether the provider refused the request and would refuse a retry, too. */
function isRefusal(cause: unknown): boolean {
  const status = statusOf(cause)
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 409 && status !== 429
}
