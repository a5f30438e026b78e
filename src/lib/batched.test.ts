import { expect, it } from 'vitest'
import { batched } from './batched.ts'

const numbers = (n: number) => Array.from({ length: n }, (_, at) => at)

it('calls of one turn of the event loop are batched, and each gets its own result', async () => {
  const batches: number[] = []
  const double = batched(
    async (items: readonly number[]) => {
      batches.push(items.length)
      return items.map(n => 2 * n)
    },
    { most: 4, atOnce: Number.POSITIVE_INFINITY },
  )
  expect(await Promise.all(numbers(10).map(double))).toEqual(numbers(10).map(n => 2 * n))
  expect(batches).toEqual([4, 4, 2])
})

it('the number of concurrent batches is limited, and later calls form the next batch', async () => {
  let running = 0
  let most = 0
  const batches: number[] = []
  const gates = numbers(3).map(() => Promise.withResolvers<void>())
  const echo = batched(
    async (items: readonly number[]) => {
      most = Math.max(most, ++running)
      batches.push(items.length)
      await gates[batches.length - 1]?.promise
      running--
      return items
    },
    { most: 100, atOnce: 1 },
  )
  const first = echo(1)
  await new Promise(setImmediate)
  const others = [2, 3, 4].map(echo)
  await new Promise(setImmediate)
  expect(batches).toEqual([1])
  for (const gate of gates) gate.resolve()
  expect(await Promise.all([first, ...others])).toEqual([1, 2, 3, 4])
  expect(batches).toEqual([1, 3])
  expect(most).toBe(1)
})

it('the failure of one item does not affect the others', async () => {
  const tries: (readonly number[])[] = []
  const picky = batched(
    async (items: readonly number[]) => {
      tries.push(items)
      if (items.includes(3)) throw new Error('not 3')
      return items
    },
    { most: 100, atOnce: 1 },
  )
  const answers = await Promise.allSettled([1, 2, 3, 4].map(picky))
  expect(answers.map(one => one.status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect(tries).toEqual([[1, 2, 3, 4], [1], [2], [3], [4]])
})
