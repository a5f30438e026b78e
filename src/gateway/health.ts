/**
 * Passive health of one backend, derived from requests. An unreachable backend is ejected at once, one that breaks
 * connections or answers late after several faults in a row; each time for twice as long. After the pause one request
 * at a time probes it, and an answer restores it.
 */
import type { Fault } from './faults.ts'

const firstPauseMs = 1000
const longestPauseMs = 30_000
/** A single reset may be caused by the client, or by a restart. */
const brokenInARow = 3

export interface Health {
  /** Faults since the last answer. */
  faults: number
  ejections: number
  /** On the clock of `performance.now()`; 0: not ejected. */
  ejectedUntilMs: number
}

export const healthy = (): Health => ({ faults: 0, ejections: 0, ejectedUntilMs: 0 })

/** @param underWay number of its pending requests */
export const isUsable = (health: Health, underWay: number, nowMs: number): boolean =>
  health.ejectedUntilMs === 0 || (nowMs >= health.ejectedUntilMs && underWay === 0)

export function recordFault(health: Health, fault: Fault, nowMs: number): void {
  if (fault === 'other') return
  health.faults++
  if (fault !== 'unreached' && health.faults < brokenInARow && health.ejections === 0) return
  // Requests sent before the ejection carry no new information.
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
