import { expect, it } from 'vitest'
import { createLimiter } from './limits.ts'

const none = { appOpen: 0, appPerSecond: 0, clientOpen: 0, clientPerSecond: 0 }

it('the open requests of an app and of a client are limited until they end', () => {
  const limiter = createLimiter({ ...none, appOpen: 3, clientOpen: 2 }, () => 0)
  expect([limiter.enter('a', 'c1'), limiter.enter('a', 'c1'), limiter.enter('a', 'c1')]).toEqual([
    undefined,
    undefined,
    'client',
  ])
  expect(limiter.enter('a', 'c2')).toBeUndefined()
  expect(limiter.enter('a', 'c3')).toBe('app')
  // A request that the app's limit refuses must not count against the client's limit.
  expect([limiter.enter('b', 'c3'), limiter.enter('b', 'c3'), limiter.enter('b', 'c3')]).toEqual([
    undefined,
    undefined,
    'client',
  ])
  limiter.leave('a', 'c1')
  expect(limiter.enter('a', 'c1')).toBeUndefined()
})

it('the requests per second are limited, with a burst of one second', () => {
  let nowMs = 0
  const limiter = createLimiter({ ...none, clientPerSecond: 10 }, () => nowMs)
  const ask = () => {
    const refusal = limiter.enter('a', 'c')
    if (refusal === undefined) limiter.leave('a', 'c')
    return refusal
  }
  const served = (tries: number) => Array.from({ length: tries }, ask).filter(answer => answer === undefined).length
  expect(served(50)).toBe(10)
  nowMs = 500
  expect(served(50)).toBe(5)
  nowMs = 60_000
  expect(served(50)).toBe(10)
})

it('idle apps and clients have no entries', () => {
  let nowMs = 0
  const limiter = createLimiter({ ...none, clientOpen: 5, clientPerSecond: 5 }, () => nowMs)
  for (let n = 0; n < 9_000; n++) {
    limiter.enter('a', `client ${n}`)
    limiter.leave('a', `client ${n}`)
  }
  nowMs = 10_000
  for (let n = 0; n < 2_000; n++) {
    limiter.enter('a', 'one')
    limiter.leave('a', 'one')
    nowMs += 1000
  }
  expect(limiter.size).toBeLessThan(10)
})
