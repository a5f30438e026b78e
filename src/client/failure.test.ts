import { expect, it } from 'vitest'
import { shortFailure } from './index.ts'

it.each([
  ['No host has room.', 'No host has room.'],
  [
    'The program exited with code 3. Last lines:\nstarting\nno such table\n',
    'The program exited with code 3: no such table',
  ],
  ['The program exited with code 3. Last lines:\n\n', 'The program exited with code 3.'],
  ['The build failed:\nnot its output', 'The build failed:'],
])('the failure %j is shortened to %j', (failure, short) => expect(shortFailure(failure)).toBe(short))
