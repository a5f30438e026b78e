import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { allDone } from './all-done.ts'

it('allDone returns all results in order', async () => {
  expect(await allDone([Promise.resolve(1), 'two', turn(3)])).toEqual([1, 'two', 3])
})

it('allDone rejects with the first failure once all promises have settled, without an unhandled rejection meanwhile', async () => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  // Remove the listeners of the test runner during this test, because they would fail the whole run.
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', note)
  try {
    const late = Promise.withResolvers<never>()
    let end: unknown
    const done = allDone([late.promise, Promise.reject(new Error('first'))]).catch((error: unknown) => (end = error))
    // Node reports unhandled rejections after each turn of the event loop.
    for (let mutex = 0; mutex < 3; mutex++) await turn()
    expect(end).toBeUndefined()
    late.reject(new Error('second'))
    await done
    expect(end).toEqual(new Error('first'))
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', note)
    for (const other of others) process.on('unhandledRejection', other)
  }
})
