import { expect, it } from 'vitest'
import { noteFor } from './remote-session.ts'

it('messages of the client are separate lines, with carriage returns only on a terminal', () => {
  expect(noteFor(false, '(The connection was lost.)')).toBe('(The connection was lost.)\n')
  expect(noteFor(true, '(The connection was lost.)')).toBe('\r\n(The connection was lost.)\r\n')
})
