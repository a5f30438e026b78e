/**
 * Passive health of one backend, from what requests find. Who cannot be reached is left out at once, who breaks off or
 * answers too late after several in a row; each time for twice as long. After the pause one request at a time tries it,
 * and an answer makes it whole.
 */
import type { Fault } from './faults.ts'

const firstPauseMs = 1000
const longestPauseMs = 30_000
/** One reset may be the client's doing, or a restart. */
const brokenInARow = 3

export interface Health {
  /** Faults since the last answer. */
  faults: number
  ejections: number
  /** On the clock of `performance.now()`; 0: not left out. */
  ejectedUntilMs: number
}

export const healthy = (): Health => ({ faults: 0, ejections: 0, ejectedUntilMs: 0 })

/** @param underWay requests that it has now */
export const isUsable = (health: Health, underWay: number, nowMs: number): boolean =>
  health.ejectedUntilMs === 0 || (nowMs >= health.ejectedUntilMs && underWay === 0)

export function recordFault(health: Health, fault: Fault, nowMs: number): void {
  if (fault === 'other') return
  health.faults++
  if (fault !== 'unreached' && health.faults < brokenInARow && health.ejections === 0) return
  // What was under way when it was left out says nothing new.
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
