import { expect, it } from 'vitest'
import { untilMoved } from './move-wait.ts'
import { createTerminal } from './progress.ts'

/** Waits for a move that has these states, one after the other. */
function moving(...states: readonly { status: string; percent?: number; error?: string }[]) {
  const left = [...states]
  const call = { terminal: createTerminal(), signal: new AbortController().signal }
  return untilMoved(call, 'Moving', 'The VM', () => Promise.resolve(left.shift() ?? { status: 'failed' }))
}

it('waits until a move is completed, and throws the reason if it is canceled or fails', async () => {
  expect(await moving({ status: 'copying', percent: 40 }, { status: 'completed' })).toEqual({ status: 'completed' })
  await expect(moving({ status: 'cancelled' })).rejects.toThrow('canceled. The VM stays on its host.')
  await expect(moving({ status: 'failed', error: 'no room' })).rejects.toThrow('The VM stays on its host: no room')
})
