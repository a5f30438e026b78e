import { expect, it } from 'vitest'
import { createRemembered } from './remembered.ts'

it('keeps what is asked for, and never more than it may', () => {
  const remembered = createRemembered<number>(100)
  for (let n = 0; n < 1000; n++) {
    remembered.set(`key ${n}`, n)
    expect(remembered.get('key 0'), `after ${n}`).toBe(0)
  }
  const kept = Array.from({ length: 1000 }, (_, n) => remembered.get(`key ${n}`)).filter(one => one !== undefined)
  expect(kept.length).toBeLessThanOrEqual(100)
})

it('forgets', () => {
  const remembered = createRemembered<number>(4)
  for (const key of ['a', 'b', 'c']) remembered.set(key, 1)
  for (const key of ['a', 'b', 'c']) remembered.forget(key)
  expect(['a', 'b', 'c'].map(key => remembered.get(key))).toEqual([undefined, undefined, undefined])
})
