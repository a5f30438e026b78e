import { expect, it, vi } from 'vitest'
import { isUuid, newId } from './ids.ts'

it('ids are UUIDs of version 7 that begin with the time', () => {
  const before = Date.now()
  const id = newId()
  expect(isUuid(id)).toBe(true)
  expect(id).toMatch(/^.{8}-.{4}-7.{3}-[89ab]/)
  const ms = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
  expect(ms).toBeGreaterThanOrEqual(before)
  expect(ms).toBeLessThan(before + 1_000)
})

it('ids increase within a millisecond and even after the clock is set back', () => {
  const ids = Array.from({ length: 20_000 }, newId)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).toEqual(ids)
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 3_600_000)
  const later = newId()
  clock.mockRestore()
  expect(later > ids.at(-1)!).toBe(true)
})
