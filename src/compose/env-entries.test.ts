import { expect, it } from 'vitest'
import { envEntries } from './env-entries.ts'
import { threadCpuMs } from '../../test/support/cpu-time.ts'

const read = (text: string) => Object.fromEntries(envEntries(text, '.env').map(({ name, value }) => [name, value]))
const fault = (text: string) => {
  try {
    read(text)
  } catch (cause) {
    return cause instanceof Error ? cause.message : ''
  }
  throw new Error('no fault')
}

it('quotes, comments, export, empty and multi-line values of a .env file are parsed', () => {
  const text = `# settings
export A=1 # first
B="two words"
C='$literal # kept'
D="line 1
line 2"
E=
F=\${A}0
`
  expect(read(text)).toEqual({ A: '1', B: 'two words', C: '$literal # kept', D: 'line 1\nline 2', E: '', F: '10' })
})

it('every error in a .env file is reported with its line', () => {
  expect(fault('A=1\nnot a line')).toBe('.env:2:1: A line must be NAME=value')
  expect(fault('A="open\nB=1')).toBe('.env:1:1: The value of A has no closing "')
  expect(fault('A=pa$word\nB')).toBe(
    '.env:1:1: The value uses $word, which no earlier line sets. For a literal dollar sign use single quotes\n.env:2:1: B has no value: write B=value',
  )
  expect(fault('\nPORT=1')).toContain('.env:2:1: PORT is set by the platform')
  expect(fault('1a=1')).toMatch(/NAME=value/)
  expect(envEntries('a.b-c=1', '.env')).toEqual([{ name: 'a.b-c', value: '1' }])
})

it('size, number of variables and parsing time of a .env file are limited', async () => {
  expect(fault(`A=${'x'.repeat(300_000)}`)).toContain('256 KiB')
  const many = Array.from({ length: 1100 }, (_, n) => `V${n}=1`).join('\n')
  expect(fault(many)).toContain('exceeds the limit of 1000 variables')
  expect(await threadCpuMs(() => fault(`A="${'\n'.repeat(200_000)}`))).toBeLessThan(500)
})
