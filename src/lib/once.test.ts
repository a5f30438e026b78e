import { expect, it } from 'vitest'
import { once } from './once.ts'

it('a value is created once for all callers, and again after a failure', async () => {
  let tries = 0
  const get = once(async () => {
    tries += 1
    if (tries === 1) throw new Error('not yet')
    return { tries }
  })
  await expect(get()).rejects.toThrow('not yet')
  const [a, b] = await Promise.all([get(), get()])
  expect(a).toBe(b)
  expect(await get()).toEqual({ tries: 2 })
})
