import { expect, it } from 'vitest'
import { giveBytes, takeBytes } from './buffer-pool.ts'

it('memory in use belongs to one caller, and is reused once it is given back', () => {
  const lengths = [40_000, 70_000, 100_000]
  const taken = lengths.map(takeBytes)
  for (const [n, bytes] of taken.entries()) bytes.fill(n + 1)
  expect(taken.map(bytes => [bytes.length, bytes[0], bytes.at(-1)])).toEqual(
    lengths.map((bytes, n) => [bytes, n + 1, n + 1]),
  )
  const [, , last = Buffer.alloc(0)] = taken
  giveBytes(last.subarray(10, 20))
  // Giving memory back twice does not make it available twice.
  giveBytes(last)
  const again = [takeBytes(90_000), takeBytes(90_000)]
  expect(again.map(bytes => bytes.buffer === last.buffer)).toEqual([true, false])
})

it('the pool keeps neither short buffers nor memory from elsewhere', () => {
  const [short, foreign] = [takeBytes(100), Buffer.alloc(50_000)]
  giveBytes(short)
  giveBytes(foreign)
  const later = Array.from({ length: 20 }, () => takeBytes(50_000).buffer)
  expect(later.includes(foreign.buffer) || later.includes(short.buffer)).toBe(false)
  expect(new Set(later).size).toBe(20)
})
