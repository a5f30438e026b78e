/** Tests of properties that only the memory bus has: its memory limits and its clock. */
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { createMemoryBus } from './memory.ts'
import { streams } from './streams.ts'
import { covers, overlap } from './subjects.ts'

const log = pino({ level: 'silent' })

async function kept(bus: ReturnType<typeof createMemoryBus>, subject: string): Promise<unknown[]> {
  const observed: unknown[] = []
  const subscription = await bus.subscribe(subject, ({ data }) => void observed.push(data), { from: 0 })
  await bus.publish(subject, 'end')
  await until(() => observed.includes('end'), { what: 'the end' })
  await subscription.stop()
  return observed.slice(0, -1)
}

test('messages expire after the maximum age, and ids for deduplication after two minutes', async () => {
  let nowMs = 1_000_000
  const bus = createMemoryBus({ log, nowMs: () => nowMs })
  const first = await bus.publish('log.a', 'old', { id: 'x' })
  nowMs += 120_000
  expect(await bus.publish('log.a', 'same', { id: 'x' })).toBe(first)
  nowMs += 1
  expect(await bus.publish('log.a', 'again', { id: 'x' })).toBe(first + 1)
  nowMs += streams[0].maxAgeSeconds * 1000 - 120_000
  expect(await kept(bus, 'log.a')).toEqual(['again'])
  await bus.close()
})

test('the total size of a stream over all its subjects is bounded', async () => {
  const bus = createMemoryBus({ log, maxStreamBytes: 10_000 })
  for (let n = 0; n < 50; n++) await bus.publish(`log.${n % 5}`, 'x'.repeat(990))
  const left = (await Promise.all([0, 1, 2, 3, 4].map(n => kept(bus, `log.${n}`)))).flat()
  expect(left.length).toBeGreaterThan(3)
  expect(left.length).toBeLessThanOrEqual(10)
  await bus.close()
})

test('the queue of a stuck reader holds no more than the retained messages', async () => {
  const bus = createMemoryBus({ log, maxStreamBytes: 5_000 })
  const gate = Promise.withResolvers<void>()
  const observed: unknown[] = []
  await bus.subscribe('log.a', async ({ data }) => {
    await gate.promise
    observed.push(data)
  })
  for (let n = 0; n < 20_000; n++) await bus.publish('log.a', n)
  gate.resolve()
  await until(() => observed.at(-1) === 19_999, { what: 'the newest' })
  expect(observed.length).toBeLessThan(1_000)
  await bus.close()
})

test.each([
  ['a.>', 'a.b', true],
  ['a.>', 'a', false],
  ['a.*', 'a.>', false],
  ['a.>', 'a.*.c', true],
  ['*.*', 'a.b', true],
  ['*.*', 'a.>', false],
  ['>', '>', true],
])('whether pattern %s covers pattern %s: %s', (outer, inner, expected) => {
  expect(covers(outer, inner)).toBe(expected)
})

test.each([
  ['a.>', '*.b', true],
  ['a.*', 'b.>', false],
  ['*.x', 'a.*', true],
  ['a.b', 'a.b.c', false],
  ['a.b.>', 'a.>', true],
  ['>', 'a', true],
])('whether patterns %s and %s overlap: %s', (one, two, expected) => {
  expect([overlap(one, two), overlap(two, one)]).toEqual([expected, expected])
})
