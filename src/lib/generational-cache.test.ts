import { expect, it } from 'vitest'
import { createGenerationalCache } from './generational-cache.ts'

it('recently used values are kept, up to the limit', () => {
  const cached = createGenerationalCache<number>(100)
  for (let n = 0; n < 1000; n++) {
    cached.set(`key ${n}`, n)
    expect(cached.get('key 0'), `after ${n}`).toBe(0)
  }
  const kept = Array.from({ length: 1000 }, (_, n) => cached.get(`key ${n}`)).filter(one => one !== undefined)
  expect(kept.length).toBeLessThanOrEqual(100)
})

it('a deleted value is not returned any more', () => {
  const cached = createGenerationalCache<number>(4)
  for (const key of ['a', 'b', 'c']) cached.set(key, 1)
  for (const key of ['a', 'b', 'c']) cached.forget(key)
  expect(['a', 'b', 'c'].map(key => cached.get(key))).toEqual([undefined, undefined, undefined])
})
