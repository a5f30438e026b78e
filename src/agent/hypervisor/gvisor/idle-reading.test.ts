import { expect, it } from 'vitest'
import { IdleReading } from './idle-reading.ts'

it('an idle guest computes the value every ten seconds, and a busy guest at each reading', async () => {
  let asked = 0
  const reading = new IdleReading(async () => ++asked, 10_000)
  const second = (at: number) => reading.read(at * 1000)
  expect([await second(0), await second(1), await second(2)]).toEqual([1, 2, 3])
  reading.isIdle = true
  expect([await second(3), await second(11), await second(12), await second(21), await second(22)]).toEqual([
    3, 3, 4, 4, 5,
  ])
  reading.isIdle = false
  expect(await second(23)).toBe(6)
})

it('a failed reading is not cached', async () => {
  let asked = 0
  const reading = new IdleReading(async () => {
    if (++asked === 1) throw new Error('no answer')
    return asked
  }, 10_000)
  reading.isIdle = true
  await expect(reading.read(0)).rejects.toThrow('no answer')
  expect(await reading.read(1000)).toBe(2)
})
