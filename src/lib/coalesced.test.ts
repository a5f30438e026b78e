import { expect, it } from 'vitest'
import { coalesced } from './coalesced.ts'

it('one run serves all calls made before it starts, and later calls get another run', async () => {
  const runs: PromiseWithResolvers<void>[] = []
  const call = coalesced(() => {
    const run = Promise.withResolvers<void>()
    runs.push(run)
    return run.promise
  }, 0)
  const early = [call(), call()]
  await Promise.resolve()
  await Promise.resolve()
  expect(runs.length).toBe(1)
  const late = [call(), call()]
  runs[0]?.resolve()
  await Promise.all(early)
  await new Promise(setImmediate)
  expect(runs.length).toBe(2)
  runs[1]?.resolve()
  await Promise.all(late)
  expect(runs.length).toBe(2)
})

it('a failed run does not prevent later ones', async () => {
  let runs = 0
  const call = coalesced(async () => {
    if (runs++ === 0) throw new Error('the first one')
  }, 0)
  await expect(call()).rejects.toThrow('the first one')
  await call()
  expect(runs).toBe(2)
})
