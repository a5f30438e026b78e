import { expect, it } from 'vitest'
import { passedOn } from './verb.ts'

const usage = 'connect <database> [psql-arguments...]'

it('a leading -- is not passed to the other program if the command has an argument of its own before it', () => {
  expect(passedOn({ usage, passThrough: true }, ['--', '-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-x', '--', 'y'])).toEqual(['-x', '--', 'y'])
})

it('a leading -- is kept if the command has no argument of its own before it, or starts no other program', () => {
  expect(passedOn({ usage: 'exec <command...>', passThrough: true }, ['--', 'ls'])).toEqual(['--', 'ls'])
  expect(passedOn({ usage }, ['--', 'a'])).toEqual(['--', 'a'])
})
