/** Reads a tutorial: the files that its reader writes, the commands that they run, and the output. Pure. */
import { stripVTControlCharacters } from 'node:util'

export type Step =
  | { readonly kind: 'file'; readonly line: number; readonly name: string; readonly text: string }
  | { readonly kind: 'commands'; readonly line: number; readonly text: string; readonly output: readonly string[] }

/** A file has its name in a line of its own before the block. The block `text` after commands shows their output. */
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
 * The shown lines that the output does not have, in this order; other lines may stand between them. `…` stands for any text, and any
 * number of spaces equals one.
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
