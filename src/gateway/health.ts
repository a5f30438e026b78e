/**
 * Passive health checks: derives a backend's health from its requests. An unreachable backend is ejected (gets no
 * requests) at once; one that breaks connections or times out, after several faults in a row. Each ejection lasts twice
 * as long as the one before. Afterwards the backend gets one request at a time until a response restores it.
 */
import type { Fault } from './faults.ts'

const firstPauseMs = 1000
const longestPauseMs = 30_000
/** More than one, because a single reset may be caused by the client or by a restart. */
const brokenInARow = 3

export interface Health {
  /** Number of faults since the last response. */
  faults: number
  ejections: number
  /** End of the ejection, by `performance.now()`; 0: not ejected. */
  ejectedUntilMs: number
}

export const healthy = (): Health => ({ faults: 0, ejections: 0, ejectedUntilMs: 0 })

/** Returns whether the backend may get a request. @param underWay number of its pending requests */
export const isUsable = (health: Health, underWay: number, nowMs: number): boolean =>
  health.ejectedUntilMs === 0 || (nowMs >= health.ejectedUntilMs && underWay === 0)

export function recordFault(health: Health, fault: Fault, nowMs: number): void {
  if (fault === 'other') return
  health.faults++
  if (fault !== 'unreached' && health.faults < brokenInARow && health.ejections === 0) return
  // Requests that were sent before the ejection contain no new information.
  if (nowMs < health.ejectedUntilMs) return
  health.ejectedUntilMs = nowMs + Math.min(firstPauseMs * 2 ** health.ejections, longestPauseMs)
  health.ejections++
}

export function recordAnswer(health: Health): void {
  if (health.faults === 0) return
  health.faults = 0
  health.ejections = 0
  health.ejectedUntilMs = 0
}
