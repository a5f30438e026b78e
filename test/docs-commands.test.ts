/** Every command that the documentation shows exists and has the flags shown. */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { currentCommandsPage } from '../scripts/command-docs.ts'
import { moteCommand } from '../src/cli/tree.ts'

const pages = ['README.md', ...globSync('docs/**/*.md').filter(file => !file.includes('decisions'))]

interface Shown {
  readonly page: string
  readonly line: string
}

/**
 * Finds `mote ...` in backticks, and lines that begin with `mote` (or `$ mote`).
 */
function shownIn(page: string): Shown[] {
  const text = readFileSync(page, 'utf8')
  const inline = [...text.matchAll(/`(mote [^`\n]+)`/g)].map(match => match[1] ?? '')
  const lines = [...text.matchAll(/^(?:\$ )?(mote [a-z][^\n]*)$/gm)].map(match => match[1] ?? '')
  return [...inline, ...lines].map(line => ({ page, line: (line.split(/ {2,}#| # /)[0] ?? '').trim() }))
}

const mote = moteCommand()

/** Returns why the CLI would reject the command, or undefined if it is valid. */
function faultOf({ line }: Shown): string | undefined {
  const [own = ''] = line.split(/ -- | \| /)
  const [, ...words] = own.replaceAll(/"[^"]*"/g, 'text').split(/\s+/)
  let command = mote
  for (const word of words) {
    if (command.commands.length === 0) break
    const named = word
      .split(/\\?\|/)
      .map(name => command.commands.find(one => [one.name(), ...one.aliases()].includes(name)))
    const [first] = named
    if (!first || named.includes(undefined)) return `"${command.name()}" has no ${word}: ${line}`
    command = first
  }
  const known = command.options.flatMap(({ long, short }) => [long, short])
  const unknown = words
    .filter(word => /^--?[a-z]/.test(word))
    // `-it` combines the flags `-i` and `-t`.
    .flatMap(word => (/^-[a-z]+$/.test(word) ? [...word.slice(1)].map(letter => `-${letter}`) : [word]))
    .filter(flag => !known.includes(flag.split('=')[0]))
  return unknown.length > 0 ? `${unknown.join(', ')} is no flag of it: ${line}` : undefined
}

it('every command in the documentation exists, with its flags', () => {
  const shown = pages.flatMap(shownIn).filter(({ line }) => !notCommands.has(line))
  expect(shown.length).toBeGreaterThan(60)
  const faults = shown.flatMap(one => {
    const fault = faultOf(one)
    return fault === undefined ? [] : [`${one.page}: ${fault}`]
  })
  expect(faults).toEqual([])
})

it('docs/commands.md lists every command with its options', () => {
  const isCurrent = readFileSync('docs/commands.md', 'utf8') === currentCommandsPage()
  expect(isCurrent, 'run `node scripts/command-docs.ts` and commit what it writes').toBe(true)
})

/** Texts that look like commands but are placeholders, global options or commands of the shell completion library. */
const notCommands = new Set([
  ...['mote <command> --help', 'mote on <computer>', 'mote --version', 'mote --help'],
  ...['mote complete bash', 'mote complete fish | source'],
])
