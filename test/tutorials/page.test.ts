import { existsSync, globSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, it } from 'vitest'
import { missingIn, stepsOf } from './page.ts'

it('a tutorial is read as a sequence of files and commands with their output', () => {
  const page = ['Text.', '```sh', 'mkdir a', '```', '```text', 'made …', '```', '`b.txt`:', '', '```html', 'x', '```']
  expect(stepsOf(page.join('\n'))).toEqual([
    { kind: 'commands', line: 2, text: 'mkdir a', output: ['made …'] },
    { kind: 'file', line: 10, name: 'b.txt', text: 'x\n' },
  ])
})

it('a tutorial with a code block of unknown meaning is rejected', () => {
  expect(() => stepsOf('```text\nout\n```')).toThrow('line 1: the block is neither')
  expect(() => stepsOf('Text.\n```sh\nls')).toThrow('line 2: the block has no end')
})

it('shown lines are compared with the output in order, and … matches any text', () => {
  const output = 'one   two\nother\nthree (4.2 s)\n'
  expect(missingIn(output, ['one two', 'three (… s)'])).toEqual([])
  expect(missingIn(output, ['three …', 'one two'])).toEqual(['one two'])
  expect(missingIn(output, ['one'])).toEqual(['one'])
  expect(missingIn(output, ['three (4x2 s)'])).toEqual(['three (4x2 s)'])
})

it('every tutorial has a test', () => {
  const names = globSync('docs/tutorials/*.md').map(file => basename(file, '.md'))
  expect(names.length).toBeGreaterThan(4)
  expect(names.filter(name => !existsSync(`test/tutorials/${name}.test.ts`))).toEqual([])
})
