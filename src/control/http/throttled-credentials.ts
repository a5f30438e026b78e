/**
 * Credentials that were told to wait. Until that time is over they are refused without another look at whom they belong to:
 * a tenant that ignores `Retry-After` costs a hash and an answer, and not a question to PostgreSQL for each request.
 */
import { hash } from 'node:crypto'
import type { Clock } from '../../lib/clock.ts'

export interface ThrottledCredentials {
  /** False: there is no need to look for one. */
  anybody(): boolean
  /** Whole seconds that are left; undefined: it may ask. */
  secondsLeft(id: string): number | undefined
  add(id: string, seconds: number): void
}

/** @param maxIds bounds the memory (about 150 bytes each); beyond it the one that was added first is forgotten */
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

/** Of a credential in a project; what is kept does not tell the credential. */
export const throttledId = (credential: string, selector: string) =>
  hash('sha256', `${credential}\n${selector}`, 'base64')
