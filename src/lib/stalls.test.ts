import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { watchStalls } from './stalls.ts'

const block = (ms: number) => {
  const end = performance.now() + ms
  while (performance.now() < end);
}

it('reports the longest stall of the event loop once', async () => {
  const reported: number[] = []
  const watch = watchStalls({ thresholdMs: 250, onStall: ms => reported.push(ms) })
  // The first wake-up starts the measurement.
  await sleep(50)
  watch.longestMs()
  await sleep(50)
  block(400)
  await sleep(50)
  const ms = watch.longestMs()
  expect(ms).toBeGreaterThan(350)
  expect(reported).toEqual([Math.round(ms)])
  expect(watch.stalls()).toBe(1)
  expect(watch.longestMs()).toBeLessThan(ms)
  watch.stop()
})
