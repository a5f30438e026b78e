/** Parses a tutorial into the files that its reader writes, the commands that the reader runs, and their output. */
import { stripVTControlCharacters } from 'node:util'

export type Step =
  | { readonly kind: 'file'; readonly line: number; readonly name: string; readonly text: string }
  | { readonly kind: 'commands'; readonly line: number; readonly text: string; readonly output: readonly string[] }

/**
 * Returns the steps of a tutorial. A code block is a file if the line before it is the file name in backticks; `sh`
 * blocks are commands, and a `text` block after them shows their output.
 */
export function stepsOf(page: string): Step[] {
  const lines = page.split('\n')
  const steps: Step[] = []
  let named: string | undefined
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    const fence = /^```(\w*)$/.exec(line)
    if (!fence) {
      if (line !== '') named = /^`([\w.-]+)`:$/.exec(line)?.[1]
      continue
    }
    const end = lines.indexOf('```', at + 1)
    if (end === -1) throw new Error(`line ${at + 1}: the block has no end`)
    const content = lines.slice(at + 1, end)
    const previous = steps.at(-1)
    if (named !== undefined) steps.push({ kind: 'file', line: at + 1, name: named, text: `${content.join('\n')}\n` })
    else if (fence[1] === 'sh') steps.push({ kind: 'commands', line: at + 1, text: content.join('\n'), output: [] })
    else if (fence[1] === 'text' && previous?.kind === 'commands')
      steps[steps.length - 1] = { ...previous, output: content }
    else throw new Error(`line ${at + 1}: the block is neither a file, nor commands, nor their output`)
    named = undefined
    at = end
  }
  return steps
}

const literal = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)

/**
 * Returns the shown lines that the output lacks. The output must contain them in this order, but may have other lines
 * between them. `…` matches any text, and several spaces equal one.
 */
export function missingIn(output: string, shown: readonly string[]): string[] {
  const lines = stripVTControlCharacters(output)
    .split(/[\r\n]+/)
    .map(line => line.trim().replaceAll(/\s+/g, ' '))
  const missing: string[] = []
  let from = 0
  for (const wanted of shown.map(line => line.trim().replaceAll(/\s+/g, ' ')).filter(line => line !== '')) {
    const pattern = new RegExp(`^${wanted.split('…').map(literal).join('.*')}$`)
    const found = lines.findIndex((line, at) => at >= from && pattern.test(line))
    if (found === -1) missing.push(wanted)
    else from = found + 1
  }
  return missing
}
