/**
 * Passive health checks: derives a backend's health from its requests. An unreachable backend is ejected (gets no
 * requests) at once; one that breaks connections or times out, after several faults in a row. Each ejection lasts twice
 * as long as the one before. Afterwards the backend gets one request at a time until a response restores it.
 */
import type { Fault } from './faults.ts'

const firstPauseMs = 1000
const longestPauseMs = 30_000
/**
 * Number of faults in a row after which a backend is ejected. A single reset may be caused by the client or by a
 * restart.
 */
const brokenInARow = 3

export interface Health {
  /** Number of failed requests since the backend's last response. */
  faults: number
  ejections: number
  /** Time until which the backend is ejected, by `performance.now()`; 0: it is not ejected. */
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
  // Ignore failures of requests that were sent before the ejection: they contain no new information.
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
