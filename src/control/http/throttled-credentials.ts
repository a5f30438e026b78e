/**
 * Credentials that exceeded a rate limit. Until their wait is over they are refused without authentication: a tenant
 * that ignores `Retry-After` costs a hash and a response, but no query to PostgreSQL.
 */
import { hash } from 'node:crypto'
import type { Clock } from '../../lib/clock.ts'

export interface ThrottledCredentials {
  /** Fast path: returns false if no credential is throttled. */
  anybody(): boolean
  /** Returns the whole seconds until the credential may be used again; undefined if the credential is not throttled. */
  secondsLeft(id: string): number | undefined
  add(id: string, seconds: number): void
}

/**
 * Creates an empty set of throttled credentials.
 * @param maxIds bounds the memory (about 150 bytes each); beyond it the oldest entry is evicted
 */
export function createThrottledCredentials(clock: Pick<Clock, 'monotonicMs'>, maxIds = 10_000): ThrottledCredentials {
  const until = new Map<string, number>()
  return {
    anybody: () => until.size > 0,
    secondsLeft(id) {
      const untilMs = until.get(id)
      if (untilMs === undefined) return undefined
      const leftMs = untilMs - clock.monotonicMs()
      if (leftMs > 0) return Math.ceil(leftMs / 1000)
      until.delete(id)
      return undefined
    },
    add(id, seconds) {
      until.delete(id)
      until.set(id, clock.monotonicMs() + seconds * 1000)
      if (until.size > maxIds) until.delete(until.keys().next().value ?? id)
    },
  }
}

/** Returns the id of a credential in a project. The id is a hash, so it does not reveal the credential. */
export const throttledId = (credential: string, selector: string) =>
  hash('sha256', `${credential}\n${selector}`, 'base64')
