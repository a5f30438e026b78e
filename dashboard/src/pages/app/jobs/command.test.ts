import { describe, expect, it } from 'vitest'
import { changedRelease, commandOf, kindOf, summaryOf, textOf } from './command.ts'

const script = ['/bin/sh', '-c', 'cd /srv\n./report "$DAY"']
const program = ['python', 'report.py', '--title', 'two words']
const odd = ['python', '-c', 'import os\nprint(1)', '']

describe('commands in a form', () => {
  it.each([
    ['a script', script, 'script'],
    ['a program', program, 'program'],
    ['arguments with line breaks', odd, 'program'],
    ['another shell', ['/bin/bash', '-c', 'true'], 'program'],
    ['a script with arguments', ['/bin/sh', '-c', 'echo "$1"', 'sh', 'a'], 'program'],
  ])('%s stays the same if its text is not edited', (_, command, kind) => {
    expect(kindOf(command)).toBe(kind)
    expect(commandOf(kind, textOf(command), command)).toEqual(command)
    expect(commandOf(kind, textOf(command).replaceAll('\n', '\r\n'), command)).toEqual(command)
  })

  it('a program is edited with one argument per line', () => {
    expect(commandOf('program', 'python\r\nreport.py\n\ntwo words\n')).toEqual(['python', 'report.py', 'two words'])
    expect(textOf(program)).toBe('python\nreport.py\n--title\ntwo words')
    expect(summaryOf(program)).toBe('python report.py --title two words')
  })

  it('a script becomes /bin/sh -c <script>, even if the command was a program before', () => {
    expect(commandOf('script', 'python\r\nls', ['python', 'ls'])).toEqual(['/bin/sh', '-c', 'python\nls'])
    expect(summaryOf(script)).toBe(script[2])
  })
})

describe('a release command', () => {
  it.each([
    ['is not sent if it is unchanged', 'python manage.py migrate', ['python', 'manage.py', 'migrate'], undefined],
    ['is not sent if its script is unchanged', 'a && b', ['/bin/sh', '-c', 'a && b'], undefined],
    ['is not sent if there was none and none is entered', '', null, undefined],
    ['runs in a shell if it is new', './migrate up', null, ['/bin/sh', '-c', './migrate up']],
    ['runs in a shell if the program is changed', 'python x.py', ['python', 'y.py'], ['/bin/sh', '-c', 'python x.py']],
    ['is removed if the text is blank', ' ', ['true'], []],
  ])('%s', (_, text, known, expected) => expect(changedRelease(text, known)).toEqual(expected))
})
