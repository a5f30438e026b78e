import { expect, it } from 'vitest'
import { passedOn } from './verb.ts'

const usage = 'connect <database> [psql-arguments...]'

it('the first -- before the arguments for another program is removed', () => {
  expect(passedOn({ usage, passThrough: true }, ['--', '-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-c', 'select 1'])).toEqual(['-c', 'select 1'])
  expect(passedOn({ usage, passThrough: true }, ['-x', '--', 'y'])).toEqual(['-x', '--', 'y'])
})

it('-- is kept if commander has already removed the first one, or if the command passes no arguments to another program', () => {
  expect(passedOn({ usage: 'exec <command...>', passThrough: true }, ['--', 'ls'])).toEqual(['--', 'ls'])
  expect(passedOn({ usage }, ['--', 'a'])).toEqual(['--', 'a'])
})
