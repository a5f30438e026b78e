import { expect, it } from 'vitest'
import { healthy, isUsable, recordAnswer, recordFault } from './health.ts'

it('an unreachable backend is ejected at once, each time for twice as long, up to 30 s', () => {
  const health = healthy()
  let nowMs = 0
  const pauses: number[] = []
  for (let n = 0; n < 7; n++) {
    recordFault(health, 'unreached', nowMs)
    pauses.push(health.ejectedUntilMs - nowMs)
    expect(isUsable(health, 0, health.ejectedUntilMs - 1)).toBe(false)
    nowMs = health.ejectedUntilMs
  }
  expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
})

it('after its pause, an ejected backend gets a single request, and a response restores it', () => {
  const health = healthy()
  recordFault(health, 'unreached', 0)
  expect(isUsable(health, 0, 1000)).toBe(true)
  expect(isUsable(health, 1, 1000)).toBe(false)
  recordAnswer(health)
  expect(isUsable(health, 50, 1000)).toBe(true)
  recordFault(health, 'unreached', 2000)
  expect(health.ejectedUntilMs).toBe(3000)
})

it('three broken connections or time-outs in a row eject a backend, but fewer do not', () => {
  const health = healthy()
  recordFault(health, 'broken', 0)
  recordFault(health, 'late', 0)
  recordAnswer(health)
  recordFault(health, 'late', 0)
  recordFault(health, 'late', 0)
  expect(isUsable(health, 9, 0)).toBe(true)
  recordFault(health, 'late', 0)
  expect(isUsable(health, 0, 0)).toBe(false)
  expect(isUsable({ ...healthy() }, 9, 0)).toBe(true)
})

it('failures that are not caused by the backend do not count', () => {
  const health = healthy()
  for (let n = 0; n < 9; n++) recordFault(health, 'other', 0)
  expect(isUsable(health, 9, 0)).toBe(true)
})
