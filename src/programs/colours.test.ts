import { expect, it } from 'vitest'
import { wantsColours } from './colours.ts'

it.each([
  ['a terminal', {}, true, true],
  ['a pipe', {}, false, false],
  ['a pipe of a CI job', { CI: 'true' }, false, false],
  ['a terminal without abilities', { TERM: 'dumb' }, true, false],
  ['NO_COLOR on a terminal', { NO_COLOR: '1' }, true, false],
  ['FORCE_COLOR in a pipe', { FORCE_COLOR: '1' }, false, true],
  ['FORCE_COLOR=0 on a terminal', { FORCE_COLOR: '0' }, true, false],
])('output is colored only where it is wanted: %s', (_, env, isTerminal, expected) => {
  expect(wantsColours(env, isTerminal)).toBe(expected)
})
