import { expect, it } from 'vitest'
import { passedOn } from './verb.ts'

const usage = 'connect <database> [psql-arguments...]'

it('the mark before the arguments of another program is not one of them', () => {
  expect(passedOn({ usage, passThrough: true }, ['--', '-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-x', '--', 'y'])).toEqual(['-x', '--', 'y'])
})

it('stays where commander has already removed it, or no other program is meant', () => {
  expect(passedOn({ usage: 'exec <command...>', passThrough: true }, ['--', 'ls'])).toEqual(['--', 'ls'])
  expect(passedOn({ usage }, ['--', 'a'])).toEqual(['--', 'a'])
})
