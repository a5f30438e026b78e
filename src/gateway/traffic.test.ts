import { expect, it } from 'vitest'
import { createTraffic } from './traffic.ts'

it('requests, failures, and the time during which requests are open are counted', () => {
  let nowMs = 1000
  const traffic = createTraffic(() => nowMs)
  const first = traffic.begin('a')
  nowMs += 100
  const second = traffic.begin('a')
  nowMs += 100
  first(false, 10)
  first(true, 99)
  second(true, 5)
  traffic.refused('b')
  const shared = { refused: 0, open: 0 }
  expect(traffic.take()).toEqual([
    { ...shared, appId: 'a', requests: 2, errors: 1, bytes: 15, busyMs: 300, lastRequestAtMs: 1200 },
    { ...shared, appId: 'b', requests: 0, errors: 0, bytes: 0, busyMs: 0, refused: 1, lastRequestAtMs: 1200 },
  ])
  expect(traffic.take()).toEqual([])
})

it('a request that stays open is in every report, with the time it was open since the previous report', () => {
  let nowMs = 0
  const traffic = createTraffic(() => nowMs)
  const end = traffic.begin('a')
  nowMs = 5000
  expect(traffic.take()).toMatchObject([{ requests: 1, open: 1, busyMs: 5000 }])
  nowMs = 9000
  expect(traffic.take()).toMatchObject([{ requests: 0, open: 1, busyMs: 4000 }])
  end(false)
  expect(traffic.take()).toMatchObject([{ requests: 0, open: 0, busyMs: 0 }].slice(1))
})
