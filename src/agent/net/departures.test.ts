import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { createDepartures } from './departures.ts'

/** Records the calls of `remove`, and lets the test decide when and how each of them ends. */
function removals() {
  const calls: Array<{ readonly names: readonly string[]; end: (error?: Error) => void }> = []
  const remove = (names: readonly string[]) =>
    new Promise<void>((resolve, reject) => {
      calls.push({ names, end: error => (error ? reject(error) : resolve()) })
    })
  const call = (n: number) => until(() => calls[n], { what: `call ${n}` })
  return { calls, remove, call }
}

test('tap names queued during a removal are removed together in the next batch, and each waiter resolves once its tap is removed', async () => {
  const { calls, remove, call } = removals()
  const gone: string[] = []
  const departures = createDepartures({ remove, onGone: name => gone.push(name), onError: () => undefined })
  departures.begin('a')
  departures.begin('b')
  const first = await call(0)
  departures.begin('c')
  departures.begin('d')
  const waited = departures.gone('d').then(() => gone.includes('d'))
  await departures.gone('nobody')
  expect(gone).toEqual([])
  first.end()
  const second = await call(1)
  second.end()
  expect(await waited).toBe(true)
  await departures.settled()
  expect(calls.map(({ names }) => names.toSorted())).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ])
})

test('a failed removal of a tap is retried, and its waiter receives the error', async () => {
  const { remove, call } = removals()
  const errors: unknown[] = []
  const gone: string[] = []
  const departures = createDepartures({
    remove,
    onGone: name => gone.push(name),
    onError: error => errors.push(error),
    retryMs: 1,
  })
  departures.begin('a')
  const first = await call(0)
  const waited = departures.gone('a').catch((error: unknown) => error)
  first.end(new Error('busy'))
  const second = await call(1)
  second.end(new Error('busy still'))
  expect(await waited).toEqual(new Error('busy still'))
  const third = await call(2)
  expect(errors).toEqual([new Error('busy'), new Error('busy still')].slice(0, errors.length))
  third.end()
  await departures.settled()
  expect(gone).toEqual(['a'])
})

test('a removal that fails delays no other removal, and rejects only its own waiter', async () => {
  const errors: unknown[] = []
  const gone: string[] = []
  let isBroken = true
  const calls: Array<readonly string[]> = []
  const departures = createDepartures({
    remove: async names => {
      calls.push(names)
      if (isBroken && names.includes('bad')) throw new Error('bad stays')
    },
    onGone: name => gone.push(name),
    onError: error => errors.push(error),
    retryMs: 5,
  })
  for (const name of ['a', 'bad', 'b']) departures.begin(name)
  await departures.gone('b')
  expect(gone.toSorted()).toEqual(['a', 'b'])
  await expect(departures.gone('bad')).rejects.toThrow('bad stays')
  departures.begin('c')
  departures.begin('d')
  await departures.gone('c')
  expect(calls.slice(4), 'not in one go with it').toContainEqual(['c', 'd'])
  expect(new Set(errors.map(String))).toEqual(new Set(['Error: bad stays']))
  isBroken = false
  await until(() => gone.includes('bad'), { what: 'another attempt' })
  await departures.gone('bad')
  const tried = calls.length
  await departures.close()
  expect([gone.toSorted(), calls.length]).toEqual([['a', 'b', 'bad', 'c', 'd'], tried])
})
